//! Counts and logs the results of settled jobs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use log::Level;

use super::failure_log::{FailureEnd, FailureKind, FailureLog};
use crate::job::error_report::ErrorReport;
use crate::job::printable::Printable;
use crate::job::wait::from_now;
use crate::pipeline::judge::Verdict;
use crate::pipeline::settlement::Settlement;
use crate::sync::Instant;
use crate::sync::atomic::Ordering;
use crate::worker::state::State;

/// Counts and logs written verdicts, and wakes the fetcher for the next retry and the next jobs of groups.
pub(super) fn count<'a>(
    state: &State,
    log: &mut FailureLog,
    written: impl Iterator<Item = &'a Settlement>,
) {
    let (counts, now) = (&state.counts, Instant::now());
    let mut next_due: Option<Duration> = None;
    let mut passed = Vec::new();
    for settlement in written {
        passed.extend(settlement.meta.group.clone());
        let job = Attempt(settlement);
        let mut failed = |end, report: &ErrorReport| {
            let failure = FailureKind {
                end,
                kind: Arc::clone(&settlement.meta.kind),
                class: report.class.clone(),
            };
            log::log_enabled!(level(end)) && log.admit(failure, now)
        };
        let (counter, delay) = match &settlement.verdict {
            Verdict::Done => (&counts.done, None),
            Verdict::Retry { delay, report } => {
                if failed(FailureEnd::Retried, report) {
                    let (delay, cause) = (rounded(*delay), Cause(state, report));
                    log::info!("{state} {job}: failed, retrying in {delay:?}: {cause}");
                }
                (&counts.retried, Some(*delay))
            }
            Verdict::Snooze { delay } => {
                let next = rounded(*delay);
                log::debug!("{state} {job}: snoozed, running again in {next:?}");
                (&counts.snoozed, Some(*delay))
            }
            Verdict::Outage { delay, report } => {
                let (next, cause) = (rounded(*delay), Cause(state, report));
                log::debug!("{state} {job}: met an outage, retrying in {next:?}: {cause}");
                (&counts.outages, Some(*delay))
            }
            Verdict::Refund { delay, report } => {
                if failed(FailureEnd::Interrupted, report) {
                    let (delay, cause) = (rounded(*delay), Cause(state, report));
                    log::warn!("{state} {job}: interrupted, running again in {delay:?}: {cause}");
                }
                (&counts.released, Some(*delay))
            }
            Verdict::Dead { cause, report } => {
                if failed(FailureEnd::Dead, report) {
                    let why = Cause(state, report);
                    log::warn!("{state} {job}: dead ({cause}): {why}");
                }
                (&counts.dead, None)
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
        next_due = next_due.into_iter().chain(delay).min();
    }
    if let Some(delay) = next_due {
        state.note_due(from_now(delay));
    }
    pass_turns(state, passed);
}

/// The level of the lines about a failure.
fn level(end: FailureEnd) -> Level {
    match end {
        FailureEnd::Retried => Level::Info,
        FailureEnd::Interrupted | FailureEnd::Dead => Level::Warn,
    }
}

/// Logs how many failures had no line.
pub(super) fn log_suppressed(state: &State, suppressed: Vec<(FailureKind, u64)>) {
    for (failure, more) in suppressed {
        let FailureKind { end, kind, class } = failure;
        let class = Printable(&class);
        let what = match end {
            FailureEnd::Retried => "failed and are retried",
            FailureEnd::Interrupted => "were interrupted and run again",
            FailureEnd::Dead => "are dead",
        };
        log::log!(
            level(end),
            "{state} kind={kind}: {more} more jobs {what}: {class}"
        );
    }
}

/// Makes the next claim look at groups whose jobs ended.
pub(super) fn pass_turns(state: &State, groups: impl IntoIterator<Item = Arc<str>>) {
    let mut groups = groups.into_iter().peekable();
    if groups.peek().is_some() {
        state.passed_groups.note(groups);
        state.look_for_jobs();
    }
}

/// A delay without the digits that nobody reads.
fn rounded(delay: Duration) -> Duration {
    Duration::from_millis(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX))
}

/// What a log line says about a failure: the class of the error and, if the program wants it, the first
/// line of its message.
struct Cause<'a>(&'a State, &'a ErrorReport);

impl fmt::Display for Cause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cause(state, report) = self;
        write!(f, "{}", Printable(&report.class))?;
        match report.message.lines().next() {
            Some(line) if state.config.hooks.logs_messages => write!(f, ": {}", Printable(line)),
            Some(_) | None => Ok(()),
        }
    }
}

/// The fields of a log line about an attempt: `kind=charge job=17 attempt=1/5`.
struct Attempt<'a>(&'a Settlement);

impl fmt::Display for Attempt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meta = &self.0.meta;
        let (id, attempt, of) = (meta.id, meta.attempt, meta.max_attempts);
        write!(f, "kind={} job={id} attempt={attempt}/{of}", meta.kind)
    }
}

/// Counts results that the database rejected.
pub(super) fn count_lost(state: &State, results: u64) {
    if results > 0 {
        state.counts.lost.fetch_add(results, Ordering::Relaxed);
        log::warn!("{state}: {results} results rejected because their leases were lost");
    }
}
