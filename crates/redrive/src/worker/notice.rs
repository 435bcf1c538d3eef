//! Notice: whether a worker asks to be told of new jobs, or looks for them by itself. Pure.
//!
//! Being told is quick, and costs those who enqueue: NOTIFY takes a lock for the time of a commit
//! that all databases of a server share, so no more of them commit in a second than one after
//! another can. Looking is free for them, and finds a job [a moment](LOOK_AGAIN) later. So a
//! worker asks to be told while little comes, and looks by itself while much does: it has always
//! found as many jobs as it asked for, or is told [more often](OFTEN) than it wants to be.
//!
//! Behind a pooler in transaction mode nobody can be told. A worker there looks by itself, and the
//! less often the longer it has found nothing.

use std::time::Duration;

use crate::floor::Instant;
use crate::pooler::Pooler;

/// How often a worker looks that is not told.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Over this time it is counted how much comes.
const WINDOW: Duration = Duration::from_millis(200);
/// As many notifications, or jobs, in a window are much: 200 a second. Where a commit takes the
/// disk longer than 5 ms, NOTIFY would keep enqueues below that.
const OFTEN: u64 = 40;
/// How long a worker looks by itself at least, so that it does not change its mind all the time.
const LOOK_FOR: Duration = Duration::from_secs(1);

/// How a worker learns of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Enqueues notify it.
    Told,
    /// It looks by itself, every [`LOOK_AGAIN`].
    Looks,
    /// It looks by itself, because it cannot be told: soon after a job, and then ever later.
    Polls,
}

/// What a claim got of what it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// All: there may be more.
    All,
    /// Less, or nothing.
    Less,
}

/// The way a worker learns of jobs, and what speaks for the other one.
#[derive(Debug)]
pub(crate) struct Notice {
    way: Way,
    since: Instant,
    /// Since when each claim got all that it asked for.
    all_since: Option<Instant>,
    window_began: Instant,
    /// Jobs claimed in the window.
    jobs: u64,
    /// Notifications at its beginning.
    told: u64,
    /// How long it waits at most when nothing was found, since it asked to be told, or since
    /// something was found.
    patience: Duration,
}

impl Notice {
    /// A worker that starts: it has never asked to be told, and may at once, if it can be told.
    pub(crate) fn new(pooler: Pooler, now: Instant) -> Notice {
        Notice {
            way: match pooler {
                Pooler::Session => Way::Looks,
                Pooler::Transaction => Way::Polls,
            },
            since: now.checked_sub(LOOK_FOR).unwrap_or(now),
            all_since: None,
            window_began: now.checked_sub(WINDOW).unwrap_or(now),
            jobs: 0,
            told: 0,
            patience: LOOK_AGAIN,
        }
    }

    pub(crate) fn way(&self) -> Way {
        self.way
    }

    /// Takes note of a claim; `told` is how many notifications have come in all. Answers the way
    /// to go from here on when it is another one.
    pub(crate) fn claimed(
        &mut self,
        now: Instant,
        jobs: usize,
        found: Found,
        told: u64,
    ) -> Option<Way> {
        self.jobs += jobs as u64;
        let all_since = match found {
            Found::All => Some(*self.all_since.get_or_insert(now)),
            Found::Less => self.all_since.take().and(None),
        };
        let always_all = all_since.is_some_and(|since| now.duration_since(since) >= WINDOW);
        let window = now.duration_since(self.window_began);
        let often = (window >= WINDOW).then(|| {
            let came = match self.way {
                Way::Told => told - self.told,
                Way::Looks | Way::Polls => self.jobs,
            };
            (self.jobs, self.told, self.window_began) = (0, told, now);
            u128::from(came) * WINDOW.as_millis() >= u128::from(OFTEN) * window.as_millis()
        });
        match self.way {
            Way::Told => (always_all || often == Some(true)).then_some(Way::Looks),
            Way::Looks => {
                let long_enough = now.duration_since(self.since) >= LOOK_FOR;
                (long_enough && found == Found::Less && often == Some(false)).then_some(Way::Told)
            }
            Way::Polls => {
                if jobs > 0 {
                    self.patience = LOOK_AGAIN;
                }
                None
            }
        }
    }

    /// Takes note that it goes another way now; who cannot be told never does.
    pub(crate) fn goes(&mut self, way: Way, now: Instant, told: u64) {
        *self = Notice {
            way,
            since: now,
            window_began: now,
            told,
            ..Notice::new(Pooler::Session, now)
        };
    }

    /// How long to wait when nothing was found, at most.
    ///
    /// Whoever began to enqueue before it asked to be told does not tell, and may commit after the
    /// worker has looked once more. So it looks again soon, and then less and less often: no such
    /// job waits for longer than its own transaction took.
    pub(crate) fn nap(&mut self) -> Duration {
        match self.way {
            Way::Looks => LOOK_AGAIN,
            Way::Told | Way::Polls => {
                let nap = self.patience;
                self.patience = nap.saturating_mul(2);
                nap
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A worker that asked to be told at `now`.
    fn told(now: Instant) -> Notice {
        let mut notice = Notice::new(Pooler::Session, now);
        notice.goes(Way::Told, now, 0);
        notice
    }

    #[test]
    fn a_worker_that_starts_with_nothing_to_do_asks_at_once() {
        let now = Instant::now();
        let mut notice = Notice::new(Pooler::Session, now);
        assert_eq!(notice.claimed(now, 0, Found::Less, 0), Some(Way::Told));
        let mut notice = Notice::new(Pooler::Session, now);
        assert_eq!(notice.claimed(now, 500, Found::All, 0), None, "a backlog");
    }

    #[test]
    fn who_is_told_often_looks_by_itself() {
        // Notifications, and in how many milliseconds.
        for (told_times, took, way) in [
            (10, 200, None),
            (39, 200, None),
            (40, 200, Some(Way::Looks)),
            (40, 100, None),
            (100, 2000, None),
            (400, 2000, Some(Way::Looks)),
        ] {
            let now = Instant::now();
            let answer = told(now).claimed(now + MS * took, 1, Found::Less, told_times);
            assert_eq!(answer, way, "{told_times} times in {took} ms");
        }
    }

    #[test]
    fn who_always_finds_all_it_asks_for_looks_by_itself() {
        let now = Instant::now();
        let mut notice = told(now);
        assert_eq!(notice.claimed(now + 5000 * MS, 1, Found::All, 1), None);
        assert_eq!(notice.claimed(now + 5199 * MS, 1, Found::All, 1), None);
        let all = notice.claimed(now + 5200 * MS, 1, Found::All, 1);
        assert_eq!(all, Some(Way::Looks));
        let mut notice = told(now);
        notice.claimed(now, 1, Found::All, 1);
        notice.claimed(now + 100 * MS, 0, Found::Less, 1);
        assert_eq!(notice.claimed(now + 250 * MS, 1, Found::All, 2), None);
    }

    #[test]
    fn who_looks_asks_to_be_told_when_little_comes_and_not_before_a_second() {
        let now = Instant::now();
        let looks = || {
            let mut notice = told(now);
            notice.goes(Way::Looks, now, 0);
            notice
        };
        assert_eq!(looks().claimed(now + 900 * MS, 0, Found::Less, 0), None);
        let quiet = looks().claimed(now + 1000 * MS, 199, Found::Less, 0);
        assert_eq!(quiet, Some(Way::Told));
        assert_eq!(looks().claimed(now + 1000 * MS, 200, Found::Less, 0), None);
        assert_eq!(looks().claimed(now + 1000 * MS, 1, Found::All, 0), None);
        let mut notice = looks();
        notice.claimed(now + 1000 * MS, 500, Found::Less, 0);
        assert_eq!(notice.claimed(now + 1100 * MS, 0, Found::Less, 0), None);
        let after = notice.claimed(now + 1200 * MS, 0, Found::Less, 0);
        assert_eq!(after, Some(Way::Told), "the next window is empty");
    }

    #[test]
    fn who_cannot_be_told_looks_ever_later_until_something_comes() {
        let now = Instant::now();
        let mut notice = Notice::new(Pooler::Transaction, now);
        for (jobs, found) in [(0, Found::Less), (500, Found::All), (1, Found::Less)] {
            let later = now + 5000 * MS;
            assert_eq!(notice.claimed(later, jobs, found, 0), None, "{jobs}");
            assert_eq!(notice.way(), Way::Polls);
        }
        let naps: Vec<Duration> = (0..4).map(|_| notice.nap()).collect();
        assert_eq!(naps, [5 * MS, 10 * MS, 20 * MS, 40 * MS]);
        notice.claimed(now + 6000 * MS, 0, Found::Less, 0);
        assert_eq!(notice.nap(), 80 * MS, "nothing came");
        notice.claimed(now + 6000 * MS, 1, Found::Less, 0);
        assert_eq!(notice.nap(), LOOK_AGAIN, "something came");
    }

    #[test]
    fn naps_double_after_it_asked_to_be_told() {
        let now = Instant::now();
        let mut notice = told(now);
        let naps: Vec<Duration> = (0..4).map(|_| notice.nap()).collect();
        assert_eq!(naps, [5 * MS, 10 * MS, 20 * MS, 40 * MS]);
        notice.goes(Way::Looks, now, 0);
        assert_eq!([notice.nap(), notice.nap()], [LOOK_AGAIN; 2]);
        notice.goes(Way::Told, now, 0);
        assert_eq!(notice.nap(), 5 * MS);
    }
}
