//! Decides whether a worker asks for notifications of new jobs or polls. Pure.
//!
//! Notifications are fast but slow down the programs that enqueue: NOTIFY holds a lock, shared by
//! all databases of the server, during the commit, so these commits run one after another. Polling
//! costs them nothing and finds a job [a moment](BUSY_POLL_INTERVAL) later. A worker therefore asks
//! for notifications while few jobs arrive, and polls while [many](BUSY_THRESHOLD) do.
//!
//! Behind a transaction-mode pooler there are no notifications. A worker then polls at intervals
//! that double while it finds nothing.

use std::time::Duration;

use crate::db::pooler::Pooler;
use crate::pipeline::claim::demand::Fill;
use crate::sync::Instant;

/// How often a busy worker polls.
pub(crate) const BUSY_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The window in which arrivals are counted.
const WINDOW: Duration = Duration::from_millis(200);
/// How many notifications or jobs per window make a worker busy: 200 per second. On a disk that
/// takes over 5 ms to commit, NOTIFY would limit enqueues to fewer.
const BUSY_THRESHOLD: u64 = 40;

/// Chooses whether a worker is notified of jobs or polls.
#[derive(Debug)]
pub(crate) struct WakePolicy {
    pooler: Pooler,
    /// Whether enqueues notify the worker.
    is_notified: bool,
    window_began: Instant,
    /// Jobs claimed in the window.
    jobs: u64,
    /// Notifications at the start of the window.
    notifications: u64,
    /// The next wait when nothing is found.
    next_wait: Duration,
}

impl WakePolicy {
    /// Starts without notifications. The first empty claim may ask for them at once, unless the worker is behind a
    /// transaction-mode pooler.
    pub(crate) fn new(pooler: Pooler, now: Instant) -> WakePolicy {
        WakePolicy {
            pooler,
            is_notified: false,
            window_began: now.checked_sub(WINDOW).unwrap_or(now),
            jobs: 0,
            notifications: 0,
            next_wait: BUSY_POLL_INTERVAL,
        }
    }

    pub(crate) fn is_notified(&self) -> bool {
        self.is_notified
    }

    /// Records a claim. `notifications` is the total number of notifications. Returns whether to
    /// [switch](WakePolicy::switch).
    pub(crate) fn claimed(
        &mut self,
        now: Instant,
        jobs: usize,
        found: Fill,
        notifications: u64,
    ) -> bool {
        self.jobs += jobs as u64;
        if jobs > 0 && !self.is_notified {
            self.next_wait = BUSY_POLL_INTERVAL;
        }
        let window = now.duration_since(self.window_began);
        if window < WINDOW {
            return false;
        }
        let came = match self.is_notified {
            true => notifications - self.notifications,
            false => self.jobs,
        };
        (self.jobs, self.notifications, self.window_began) = (0, notifications, now);
        let are_many = u128::from(came) * WINDOW.as_millis()
            >= u128::from(BUSY_THRESHOLD) * window.as_millis();
        match self.is_notified {
            true => are_many,
            false => self.pooler == Pooler::Session && found == Fill::Partial && !are_many,
        }
    }

    /// Records that the worker asks for notifications from now on, or no longer.
    pub(crate) fn switch(&mut self, now: Instant, notifications: u64) {
        *self = WakePolicy {
            is_notified: !self.is_notified,
            window_began: now,
            notifications,
            ..WakePolicy::new(self.pooler, now)
        };
    }

    /// Returns how long to wait at most when nothing was found.
    ///
    /// A transaction that began before the worker asked for notifications sends none, and may
    /// commit after the next poll. The worker therefore polls soon again, then at doubling
    /// intervals, so that no such job waits longer than its own transaction took.
    pub(crate) fn wait(&mut self) -> Duration {
        if !self.is_notified && self.pooler == Pooler::Session {
            return BUSY_POLL_INTERVAL;
        }
        let wait = self.next_wait;
        self.next_wait = wait.saturating_mul(2);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A worker that asked for notifications at `now`.
    fn notified(now: Instant) -> WakePolicy {
        let mut policy = WakePolicy::new(Pooler::Session, now);
        policy.switch(now, 0);
        policy
    }

    /// A worker that stopped asking for them at `now`.
    fn busy(now: Instant) -> WakePolicy {
        let mut policy = notified(now);
        policy.switch(now, 0);
        policy
    }

    #[test]
    fn a_worker_polls_while_many_jobs_arrive() {
        use Fill::{Full, Partial};

        let now = Instant::now();
        let start = WakePolicy::new;
        // The claims: the milliseconds since it took its mode, the jobs, whether it was full, and the notifications.
        for (mut policy, claims, expected) in [
            // An idle worker asks for notifications at its start, and none with a backlog.
            (start(Pooler::Session, now), &[(0, 0, Partial, 0)][..], true),
            (start(Pooler::Session, now), &[(0, 500, Full, 0)], false),
            (
                start(Pooler::Transaction, now),
                &[(0, 0, Partial, 0)],
                false,
            ),
            // It polls after many notifications in a short time.
            (notified(now), &[(200, 1, Partial, 10)], false),
            (notified(now), &[(200, 1, Partial, 39)], false),
            (notified(now), &[(200, 1, Partial, 40)], true),
            (notified(now), &[(100, 1, Partial, 40)], false),
            (notified(now), &[(2000, 1, Partial, 100)], false),
            (notified(now), &[(2000, 1, Partial, 400)], true),
            // It asks for notifications again once few jobs arrive.
            (busy(now), &[(100, 0, Partial, 0)], false),
            (busy(now), &[(1000, 199, Partial, 0)], true),
            (busy(now), &[(1000, 200, Partial, 0)], false),
            (busy(now), &[(1000, 1, Full, 0)], false),
            (
                busy(now),
                &[(1000, 500, Partial, 0), (1100, 0, Partial, 0)],
                false,
            ),
            (
                busy(now),
                &[(1000, 500, Partial, 0), (1200, 0, Partial, 0)],
                true,
            ),
        ] {
            let mut last = false;
            for &(ms, jobs, found, notifications) in claims {
                last = policy.claimed(now + ms * MS, jobs, found, notifications);
            }
            assert_eq!(last, expected, "{claims:?} {policy:?}");
        }
    }

    #[test]
    fn waits_double_while_no_job_arrives() {
        let now = Instant::now();
        let mut policy = WakePolicy::new(Pooler::Transaction, now);
        for policy in [&mut policy, &mut notified(now)] {
            let waits: Vec<Duration> = (0..4).map(|_| policy.wait()).collect();
            assert_eq!(waits, [5 * MS, 10 * MS, 20 * MS, 40 * MS]);
        }
        policy.claimed(now + 6000 * MS, 0, Fill::Partial, 0);
        assert_eq!(policy.wait(), 80 * MS, "no job arrived");
        policy.claimed(now + 6000 * MS, 1, Fill::Partial, 0);
        assert_eq!(policy.wait(), BUSY_POLL_INTERVAL, "a job arrived");
        let mut policy = busy(now);
        assert_eq!([policy.wait(), policy.wait()], [BUSY_POLL_INTERVAL; 2]);
        policy.switch(now, 0);
        assert_eq!(policy.wait(), 5 * MS, "again");
    }
}
