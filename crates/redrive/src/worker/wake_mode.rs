//! Decides whether a worker asks for notifications of new jobs or polls. Pure.
//!
//! Notifications are fast but slow down the programs that enqueue: NOTIFY holds a lock, shared by
//! all databases of the server, during the commit, so these commits run one after another. Polling
//! costs them nothing and finds a job [a moment](BUSY_POLL_INTERVAL) later. A worker therefore asks
//! for notifications while few jobs arrive. It polls while many arrive: when every claim is full,
//! or when notifications exceed [a limit](BUSY_THRESHOLD).
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
/// The minimum time in busy mode, so that the mode does not flap.
const LOOK_FOR: Duration = Duration::from_secs(1);

/// How a worker learns of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeMode {
    /// Enqueues notify it.
    Notified,
    /// It polls every [`BUSY_POLL_INTERVAL`].
    Busy,
    /// It polls because it cannot be notified: soon after a job, then at doubling intervals.
    Polling,
}

/// Chooses the wake mode.
#[derive(Debug)]
pub(crate) struct WakePolicy {
    mode: WakeMode,
    since: Instant,
    /// Since when every claim has been full.
    all_since: Option<Instant>,
    window_began: Instant,
    /// Jobs claimed in the window.
    jobs: u64,
    /// Notifications at the start of the window.
    notifications: u64,
    /// The next wait when nothing is found.
    next_wait: Duration,
}

impl WakePolicy {
    /// Starts in busy mode, or in polling mode behind a transaction-mode pooler. The first empty
    /// claim may ask for notifications at once.
    pub(crate) fn new(pooler: Pooler, now: Instant) -> WakePolicy {
        WakePolicy {
            mode: match pooler {
                Pooler::Session => WakeMode::Busy,
                Pooler::Transaction => WakeMode::Polling,
            },
            since: now.checked_sub(LOOK_FOR).unwrap_or(now),
            all_since: None,
            window_began: now.checked_sub(WINDOW).unwrap_or(now),
            jobs: 0,
            notifications: 0,
            next_wait: BUSY_POLL_INTERVAL,
        }
    }

    pub(crate) fn mode(&self) -> WakeMode {
        self.mode
    }

    /// Records a claim. `notifications` is the total number of notifications. Returns the mode to switch to,
    /// if any.
    pub(crate) fn claimed(
        &mut self,
        now: Instant,
        jobs: usize,
        found: Fill,
        notifications: u64,
    ) -> Option<WakeMode> {
        self.jobs += jobs as u64;
        let all_since = match found {
            Fill::Full => Some(*self.all_since.get_or_insert(now)),
            Fill::Partial => self.all_since.take().and(None),
        };
        let always_all = all_since.is_some_and(|since| now.duration_since(since) >= WINDOW);
        let window = now.duration_since(self.window_began);
        let often = (window >= WINDOW).then(|| {
            let came = match self.mode {
                WakeMode::Notified => notifications - self.notifications,
                WakeMode::Busy | WakeMode::Polling => self.jobs,
            };
            (self.jobs, self.notifications, self.window_began) = (0, notifications, now);
            u128::from(came) * WINDOW.as_millis() >= u128::from(BUSY_THRESHOLD) * window.as_millis()
        });
        match self.mode {
            WakeMode::Notified => (always_all || often == Some(true)).then_some(WakeMode::Busy),
            WakeMode::Busy => {
                let long_enough = now.duration_since(self.since) >= LOOK_FOR;
                (long_enough && found == Fill::Partial && often == Some(false))
                    .then_some(WakeMode::Notified)
            }
            WakeMode::Polling => {
                if jobs > 0 {
                    self.next_wait = BUSY_POLL_INTERVAL;
                }
                None
            }
        }
    }

    /// Records a switch.
    pub(crate) fn switch(&mut self, mode: WakeMode, now: Instant, notifications: u64) {
        *self = WakePolicy {
            mode,
            since: now,
            window_began: now,
            notifications,
            ..WakePolicy::new(Pooler::Session, now)
        };
    }

    /// Returns how long to wait at most when nothing was found.
    ///
    /// A transaction that began before the worker asked for notifications sends none, and may
    /// commit after the next poll. The worker therefore polls soon again, then at doubling
    /// intervals, so that no such job waits longer than its own transaction took.
    pub(crate) fn wait(&mut self) -> Duration {
        match self.mode {
            WakeMode::Busy => BUSY_POLL_INTERVAL,
            WakeMode::Notified | WakeMode::Polling => {
                let wait = self.next_wait;
                self.next_wait = wait.saturating_mul(2);
                wait
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A worker that took a mode at `now`.
    fn in_mode(mode: WakeMode, now: Instant) -> WakePolicy {
        let mut policy = WakePolicy::new(Pooler::Session, now);
        policy.switch(mode, now, 0);
        policy
    }

    #[test]
    fn a_worker_polls_while_many_jobs_arrive() {
        use Fill::{Full, Partial};
        use WakeMode::{Busy, Notified};

        let now = Instant::now();
        let start = || WakePolicy::new(Pooler::Session, now);
        let (notified, busy) = (|| in_mode(Notified, now), || in_mode(Busy, now));
        // The claims: the milliseconds since it took its mode, the jobs, whether it was full, and the notifications.
        for (mut policy, claims, expected) in [
            // An idle worker asks for notifications at its start, and none with a backlog.
            (start(), &[(0, 0, Partial, 0)][..], Some(Notified)),
            (start(), &[(0, 500, Full, 0)], None),
            // It polls after many notifications in a short time.
            (notified(), &[(200, 1, Partial, 10)], None),
            (notified(), &[(200, 1, Partial, 39)], None),
            (notified(), &[(200, 1, Partial, 40)], Some(Busy)),
            (notified(), &[(100, 1, Partial, 40)], None),
            (notified(), &[(2000, 1, Partial, 100)], None),
            (notified(), &[(2000, 1, Partial, 400)], Some(Busy)),
            // It polls if all claims are full for a while.
            (notified(), &[(5000, 1, Full, 1), (5199, 1, Full, 1)], None),
            (
                notified(),
                &[(5000, 1, Full, 1), (5200, 1, Full, 1)],
                Some(Busy),
            ),
            (
                notified(),
                &[(0, 1, Full, 1), (100, 0, Partial, 1), (250, 1, Full, 2)],
                None,
            ),
            // It asks for notifications again after a second, and then once few jobs arrive.
            (busy(), &[(900, 0, Partial, 0)], None),
            (busy(), &[(1000, 199, Partial, 0)], Some(Notified)),
            (busy(), &[(1000, 200, Partial, 0)], None),
            (busy(), &[(1000, 1, Full, 0)], None),
            (
                busy(),
                &[(1000, 500, Partial, 0), (1100, 0, Partial, 0)],
                None,
            ),
            (
                busy(),
                &[(1000, 500, Partial, 0), (1200, 0, Partial, 0)],
                Some(Notified),
            ),
        ] {
            let mut last = None;
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
        for (jobs, found) in [(0, Fill::Partial), (500, Fill::Full), (1, Fill::Partial)] {
            let later = now + 5000 * MS;
            assert_eq!(policy.claimed(later, jobs, found, 0), None, "{jobs}");
            assert_eq!(policy.mode(), WakeMode::Polling);
        }
        for policy in [&mut policy, &mut in_mode(WakeMode::Notified, now)] {
            let waits: Vec<Duration> = (0..4).map(|_| policy.wait()).collect();
            assert_eq!(waits, [5 * MS, 10 * MS, 20 * MS, 40 * MS]);
        }
        policy.claimed(now + 6000 * MS, 0, Fill::Partial, 0);
        assert_eq!(policy.wait(), 80 * MS, "no job arrived");
        policy.claimed(now + 6000 * MS, 1, Fill::Partial, 0);
        assert_eq!(policy.wait(), BUSY_POLL_INTERVAL, "a job arrived");
        policy.switch(WakeMode::Busy, now, 0);
        assert_eq!([policy.wait(), policy.wait()], [BUSY_POLL_INTERVAL; 2]);
        policy.switch(WakeMode::Notified, now, 0);
        assert_eq!(policy.wait(), 5 * MS, "again");
    }
}
