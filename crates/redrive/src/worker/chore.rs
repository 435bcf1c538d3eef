//! The chores of a worker, and how one that fails backs off. Pure.

use std::time::Duration;

use crate::job::words::words;
use crate::sync::Instant;

/// The longest pause of chores that bound the recovery of jobs: the longest time between two looks.
const SHORT_PAUSE: Duration = Duration::from_secs(10);
/// The longest pause of the other chores after failures in a row.
const MAX_CHORE_PAUSE: Duration = Duration::from_mins(5);
/// The pause after a first failure. It doubles with each further one.
const MIN_PAUSE: Duration = Duration::from_millis(500);
/// The most failures that count: the largest bound becomes 1.
const MAX_FAILURES: u32 = 30;

words! {
    /// Work that any worker does on behalf of all. Those that a look reports run in this order. The words are in
    /// `chores.sql`, in metrics and in log lines.
    #[derive(PartialOrd, Ord)]
    pub(crate) enum Chore is "chore" {
        /// Asks which of the others are due.
        Look = "look",
        /// Runs the ticks of schedules, at their time or after a look.
        Schedules = "schedules",
        /// Rewrites small tables that are full of dead rows. It comes first, because they slow the others.
        Compact = "compact",
        /// Takes the jobs of lost workers back.
        Reap = "reap",
        /// These three add up totals of failure groups, of redrive runs and of metrics.
        FoldLetters = "fold_letters",
        FoldRuns = "fold_runs",
        FoldCounters = "fold_counters",
        Retention = "retention",
        /// Deletes the full buckets of groups.
        Buckets = "buckets",
        /// Finds redrive runs without a driver and drives them.
        Runs = "runs",
        Ring = "ring",
        /// Warns of ready jobs whose kind no live worker handles, and buries them if the worker is configured to.
        Unhandled = "unhandled",
        /// Raises the priority of jobs that have waited long, if the worker is configured to.
        Age = "age",
    }
}

impl Chore {
    /// Whether an idle worker does it, too. A fold is not work: its count would be the reason of the next one.
    pub(crate) const fn is_rest(self) -> bool {
        use Chore::{Age, FoldCounters, Look, Ring, Unhandled};
        matches!(self, Look | Ring | FoldCounters | Unhandled | Age)
    }

    const fn longest_pause(self) -> Duration {
        match matches!(self, Chore::Look | Chore::Schedules | Chore::Reap) {
            true => SHORT_PAUSE,
            false => MAX_CHORE_PAUSE,
        }
    }
}

/// When a chore is next due, and its recent failures, which delay and shrink it and no other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Task {
    /// `None`: once a look finds that it is.
    pub(crate) due: Option<Instant>,
    /// It does not run before this time.
    pub(crate) rests_until: Option<Instant>,
    /// Each failure doubles the next pause and halves the bounds of the chore; each success takes that back for one.
    failures: u32,
}

impl Task {
    /// Returns when it runs next.
    pub(crate) fn at(&self) -> Option<Instant> {
        self.due.max(self.due.and(self.rests_until))
    }

    pub(crate) fn succeeded(&mut self) {
        self.failures = self.failures.saturating_sub(1);
    }

    /// Records a failure. Returns the pause until the next attempt.
    pub(crate) fn failed(&mut self, chore: Chore, now: Instant) -> Duration {
        let pause = (MIN_PAUSE * 2_u32.pow(self.failures)).min(chore.longest_pause());
        self.failures = (self.failures + 1).min(MAX_FAILURES);
        (self.due, self.rests_until) = (Some(now), Some(now + pause));
        pause
    }

    /// Returns the bound to use instead of `most`.
    pub(crate) fn bound(&self, most: i32) -> i32 {
        (most >> self.failures).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_the_longest() {
        for (chore, pauses_ms) in [
            (Chore::Reap, [500, 1000, 2000, 4000, 8000, 10_000, 10_000]),
            (Chore::Ring, [500, 1000, 2000, 4000, 8000, 16_000, 32_000]),
        ] {
            let (mut task, now) = (Task::default(), Instant::now());
            for ms in pauses_ms {
                let pause = Duration::from_millis(ms);
                assert_eq!(task.failed(chore, now), pause, "{chore:?}");
                assert_eq!(task.at(), Some(now + pause));
            }
        }
    }

    #[test]
    fn bounds_halve_with_each_failure_and_double_with_each_success() {
        let (mut task, now) = (Task::default(), Instant::now());
        assert_eq!(task.bound(100), 100);
        for bound in [50, 25, 12, 6, 3, 1, 1] {
            task.failed(Chore::Reap, now);
            assert_eq!(task.bound(100), bound);
        }
        for bound in [1, 3, 6, 12, 25, 50, 100, 100] {
            task.succeeded();
            assert_eq!(task.bound(100), bound);
        }
        for _ in 0..100 {
            task.failed(Chore::Ring, now);
        }
        assert_eq!(task.failed(Chore::Ring, now), MAX_CHORE_PAUSE);
        assert_eq!(task.bound(i32::MAX), 1);
    }
}
