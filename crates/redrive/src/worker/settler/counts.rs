//! Counts and logs the results of settled jobs.

use std::sync::Arc;
use std::time::Duration;

use log::Level;

use super::failure_log::{FailureKind, FailureLog};
use crate::job::error_report::one_line;
use crate::job::wait::from_now;
use crate::pipeline::judge::Verdict;
use crate::pipeline::settlement::Settlement;
use crate::sync::Instant;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::worker::observer::{AttemptOutcome, of_verdict};
use crate::worker::state::State;
use crate::worker::stats::Counters;

/// Counts and logs written verdicts, and wakes the fetcher for the next retry and the next jobs of groups.
pub(super) fn count<'a>(
    state: &State,
    log: &mut FailureLog,
    written: impl Iterator<Item = &'a Settlement>,
) {
    let now = Instant::now();
    let mut next_due: Option<Duration> = None;
    let (mut done, mut passes_turn) = (0, false);
    for settlement in written {
        if settlement.is_unstarted() {
            state.count_released(1);
            continue;
        }
        let meta = &settlement.meta;
        passes_turn |= meta.group.is_some();
        if settlement.verdict == Verdict::Done {
            done += 1;
            continue;
        }
        let (outcome, delay) = of_verdict(settlement.verdict);
        next_due = next_due.into_iter().chain(delay).min();
        let (counter, level, _) = line(&state.counts, outcome);
        counter.fetch_add(1, Ordering::Relaxed);
        if !log::log_enabled!(level) {
            continue;
        }
        let class = || settlement.report.as_ref().map(|it| it.class.clone());
        let failure = || (outcome, Arc::clone(&meta.kind), class().unwrap_or_default());
        // Those for debugging have a line each.
        if level == Level::Debug || log.admit(failure(), now) {
            log_attempt(state, settlement);
        }
    }
    state.counts.done.fetch_add(done, Ordering::Relaxed);
    if let Some(delay) = next_due {
        state.note_due(from_now(delay));
    }
    if passes_turn {
        state.look_for_jobs();
    }
}

/// Returns the counter of an outcome, and the level and the words of the lines about it.
fn line(counts: &Counters, outcome: AttemptOutcome) -> (&AtomicU64, Level, &'static str) {
    match outcome {
        AttemptOutcome::Done => (&counts.done, Level::Trace, "done"),
        AttemptOutcome::Retried => (&counts.retried, Level::Info, "failed, retrying"),
        AttemptOutcome::Snoozed => (&counts.snoozed, Level::Debug, "snoozed, running again"),
        AttemptOutcome::Outage => (&counts.outages, Level::Debug, "met an outage, retrying"),
        AttemptOutcome::Interrupted => {
            (&counts.released, Level::Warn, "interrupted, running again")
        }
        AttemptOutcome::Dead => (&counts.dead, Level::Warn, "dead"),
    }
}

/// Logs the class of the error and, if the program wants it, the first line of its message.
fn log_attempt(state: &State, settlement: &Settlement) {
    let (outcome, delay) = of_verdict(settlement.verdict);
    let (_, level, words) = line(&state.counts, outcome);
    let mut next = delay.map(|delay| format!(" in {:?}", rounded(delay)));
    if let Verdict::Dead(cause) = settlement.verdict {
        next = Some(format!(" ({cause})"));
    }
    let mut why = String::new();
    if let Some(report) = &settlement.report {
        let message = report.message.lines().next();
        let message = message.filter(|_| state.config.hooks.logs_messages);
        for text in [&*report.class].into_iter().chain(message) {
            why.push_str(": ");
            why.push_str(&one_line(text));
        }
    }
    let (meta, next) = (&settlement.meta, next.unwrap_or_default());
    // An enqueuer in SQL may give any kind.
    let kind = one_line(&meta.kind);
    let (id, attempt, of) = (meta.id, meta.attempt, meta.max_attempts);
    log::log!(
        level,
        "{state} kind={kind} job={id} attempt={attempt}/{of}: {words}{next}{why}"
    );
}

/// Logs how many failures had no line.
pub(super) fn log_suppressed(state: &State, suppressed: Vec<(FailureKind, u64)>) {
    for ((outcome, kind, class), more) in suppressed {
        let (_, level, words) = line(&state.counts, outcome);
        let (kind, class) = (one_line(&kind), one_line(&class));
        log::log!(
            level,
            "{state} kind={kind}: {more} more jobs {words}: {class}"
        );
    }
}

/// A delay without the digits that nobody reads.
fn rounded(delay: Duration) -> Duration {
    Duration::from_millis(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX))
}

/// Counts results that the database rejected.
pub(super) fn count_lost(state: &State, results: u64) {
    if results > 0 {
        state.counts.lost.fetch_add(results, Ordering::Relaxed);
        log::warn!("{state}: {results} results rejected because their leases were lost");
    }
}
