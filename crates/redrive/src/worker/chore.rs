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
        /// Adds up the totals of failure groups.
        FoldLetters = "fold_letters",
        /// Adds up the outcomes of redrive runs.
        FoldRuns = "fold_runs",
        /// Adds up the counters of metrics.
        FoldCounters = "fold_counters",
        /// Applies the retention rules.
        Retention = "retention",
        /// Deletes the full buckets of groups.
        Buckets = "buckets",
        /// Finds redrive runs without a driver and drives them.
        Runs = "runs",
        /// Turns the ring of job segments.
        Ring = "ring",
        /// Warns of ready jobs whose kind no live worker handles, and buries them if the worker is configured to.
        Unhandled = "unhandled",
        /// Raises the priority of jobs that have waited long, if the worker is configured to.
        Age = "age",
    }
}

impl Chore {
    const fn longest_pause(self) -> Duration {
        match matches!(self, Chore::Look | Chore::Schedules | Chore::Reap) {
            true => SHORT_PAUSE,
            false => MAX_CHORE_PAUSE,
        }
    }
}

/// The recent failures of a chore. They delay and shrink the chore, and no other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChoreHealth {
    /// Each failure doubles the next pause and halves the bounds of the chore; each success takes that back for one.
    failures: u32,
    paused_until: Option<Instant>,
}

impl ChoreHealth {
    pub(crate) fn is_paused(&self, now: Instant) -> bool {
        self.paused_until.is_some_and(|until| now < until)
    }

    pub(crate) fn paused_until(&self) -> Option<Instant> {
        self.paused_until
    }

    pub(crate) fn succeeded(&mut self) {
        self.failures = self.failures.saturating_sub(1);
        self.paused_until = None;
    }

    /// Records a failure and returns the pause.
    pub(crate) fn failed(&mut self, chore: Chore, now: Instant) -> Duration {
        let pause = (MIN_PAUSE * 2_u32.pow(self.failures)).min(chore.longest_pause());
        self.failures = (self.failures + 1).min(MAX_FAILURES);
        self.paused_until = Some(now + pause);
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
            let mut health = ChoreHealth::default();
            let now = Instant::now();
            for ms in pauses_ms {
                let pause = Duration::from_millis(ms);
                assert_eq!(health.failed(chore, now), pause, "{chore:?}");
                assert!(health.is_paused(now + pause / 2));
                assert!(!health.is_paused(now + pause));
            }
        }
    }

    #[test]
    fn bounds_halve_with_each_failure_and_double_with_each_success() {
        let mut health = ChoreHealth::default();
        assert_eq!(health.bound(100), 100);
        for bound in [50, 25, 12, 6, 3, 1, 1] {
            health.failed(Chore::Reap, Instant::now());
            assert_eq!(health.bound(100), bound);
        }
        for bound in [1, 3, 6, 12, 25, 50, 100, 100] {
            health.succeeded();
            assert_eq!(health.bound(100), bound);
            assert!(!health.is_paused(Instant::now()));
        }
        for _ in 0..100 {
            health.failed(Chore::Ring, Instant::now());
        }
        assert_eq!(health.failed(Chore::Ring, Instant::now()), MAX_CHORE_PAUSE);
        assert_eq!(health.bound(i32::MAX), 1);
    }
}
