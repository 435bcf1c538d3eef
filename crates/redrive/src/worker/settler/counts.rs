//! Counts and logs the results of settled jobs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::job::wait::from_now;
use crate::pipeline::judge::Verdict;
use crate::pipeline::settlement::Settlement;
use crate::sync::atomic::Ordering;
use crate::sync::channel::Sender;
use crate::worker::state::State;
use crate::worker::wake_mode::Wake;

/// Counts and logs written verdicts, and wakes the fetcher for the next retry and the next jobs of groups.
pub(super) fn count<'a>(
    state: &State,
    written: impl Iterator<Item = &'a Settlement>,
    wake: &Sender<Wake>,
) {
    let counts = &state.counts;
    let mut next_due: Option<Duration> = None;
    let mut passed = Vec::new();
    for settlement in written {
        passed.extend(settlement.meta.group.clone());
        let job = Attempt(settlement);
        let (counter, delay) = match &settlement.verdict {
            Verdict::Done => (&counts.done, None),
            Verdict::Retry { delay, report } => {
                let class = &report.class;
                log::info!("{state} {job}: failed, retrying in {delay:?}: {class}");
                (&counts.retried, Some(*delay))
            }
            Verdict::Snooze { delay } => {
                log::debug!("{state} {job}: snoozed, running again in {delay:?}");
                (&counts.snoozed, Some(*delay))
            }
            Verdict::Outage { delay, report } => {
                let class = &report.class;
                log::debug!("{state} {job}: met an outage, retrying in {delay:?}: {class}");
                (&counts.outages, Some(*delay))
            }
            Verdict::Dead { cause, report } => {
                log::warn!("{state} {job}: dead ({cause}): {}", report.class);
                (&counts.dead, None)
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
        next_due = next_due.into_iter().chain(delay).min();
    }
    if let Some(delay) = next_due {
        // A full channel means that the fetcher will poll anyway.
        _ = wake.try_send(Wake::Due(from_now(delay)));
    }
    pass_turns(state, passed, wake);
}

/// Makes the next claim look at groups whose jobs ended.
pub(super) fn pass_turns(
    state: &State,
    groups: impl IntoIterator<Item = Arc<str>>,
    wake: &Sender<Wake>,
) {
    let mut groups = groups.into_iter().peekable();
    if groups.peek().is_some() {
        state.passed_groups.note(groups);
        _ = wake.try_send(Wake::Work);
    }
}

/// The fields of a log line about an attempt: `job=17 attempt=1/5`.
struct Attempt<'a>(&'a Settlement);

impl fmt::Display for Attempt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meta = &self.0.meta;
        let (id, attempt, of) = (meta.id, meta.attempt, meta.max_attempts);
        write!(f, "job={id} attempt={attempt}/{of}")
    }
}

/// Counts results that the database rejected.
pub(super) fn count_lost(state: &State, results: u64) {
    if results > 0 {
        state.counts.lost.fetch_add(results, Ordering::Relaxed);
        log::warn!("{state}: {results} results rejected because their leases were lost");
    }
}
