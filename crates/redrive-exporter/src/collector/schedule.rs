//! Decides which scrapes share a reading of the database, and how long it may take. Pure: no clock,
//! no threads, no database.
//!
//! One reading at a time is in progress, and only its result counts. If it misses its deadline it is
//! abandoned, and one more may start. If that one is abandoned as well, nothing is read until one of
//! the two has ended. There are therefore never more than two connections.
//!
//! Each reading has a minimum time, so that a scrape with a short timeout does not abandon a
//! connection that other scrapes can still use.

use std::time::{Duration, Instant};

/// The minimum time for the queries of a reading.
const MIN_READ: Duration = Duration::from_secs(1);
/// The minimum time before a reading is abandoned.
const MIN_DEADLINE: Duration = Duration::from_secs(5);
/// The maximum number of readers: one that reads, and one that was abandoned.
const MAX_READERS: usize = 2;

/// One reading, shared by all scrapes that wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharedReading {
    /// Its number, from 1.
    pub(super) number: u64,
    /// When its queries should end.
    pub(super) read_until: Instant,
    /// When it is abandoned.
    pub(super) deadline: Instant,
}

/// The reading in progress and its readers.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    current: Option<SharedReading>,
    /// The number of the last reading that was started.
    started: u64,
    /// The number of the last reading that was completed.
    completed: u64,
    /// How many readers have not ended, abandoned ones included.
    readers: usize,
    is_closing: bool,
}

impl Schedule {
    /// Returns the reading in progress.
    pub(super) fn current(&self) -> Option<SharedReading> {
        self.current
    }

    /// Starts a reading with this time limit, for the caller to carry out.
    ///
    /// Returns `None` if one is in progress or there are two readers already.
    pub(super) fn start(&mut self, now: Instant, limit: Duration) -> Option<SharedReading> {
        if self.current.is_some() || self.readers >= MAX_READERS || self.is_closing {
            return None;
        }
        self.started += 1;
        self.readers += 1;
        self.current = Some(SharedReading {
            number: self.started,
            read_until: now + limit.max(MIN_READ),
            deadline: now + limit.max(MIN_DEADLINE),
        });
        self.current
    }

    /// Completes a reading. Returns whether its result counts.
    pub(super) fn complete(&mut self, reading: SharedReading) -> bool {
        let counts = self.current == Some(reading);
        if counts {
            self.completed = reading.number;
            self.current = None;
        }
        counts
    }

    /// Returns whether the reading with this number, or a later one, was completed.
    pub(super) fn is_completed(&self, number: u64) -> bool {
        self.completed >= number
    }

    /// Abandons the reading in progress if its deadline has passed. Returns whether it did.
    pub(super) fn abandon_overdue(&mut self, now: Instant) -> bool {
        let is_overdue = self.current.is_some_and(|reading| now >= reading.deadline);
        if is_overdue {
            self.current = None;
        }
        is_overdue
    }

    /// Records that the reader of a reading has ended.
    pub(super) fn ended(&mut self, reading: SharedReading) {
        self.readers = self.readers.saturating_sub(1);
        // It ends without a result after a panic.
        self.current = self.current.filter(|current| *current != reading);
    }

    /// Starts no further reading.
    pub(super) fn close(&mut self) {
        self.is_closing = true;
    }

    /// Returns the number of readers, abandoned ones included.
    pub(super) fn readers(&self) -> usize {
        self.readers
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;

    /// A moment, in seconds after the start.
    fn at(seconds: u64) -> Instant {
        static START: OnceLock<Instant> = OnceLock::new();
        *START.get_or_init(Instant::now) + Duration::from_secs(seconds)
    }

    const SIX: Duration = Duration::from_secs(6);

    #[test]
    fn a_scrape_with_a_short_timeout_does_not_abandon_the_connection() {
        for (milliseconds, read_until, deadline) in [(100, 1, 5), (6000, 6, 6)] {
            let mut schedule = Schedule::default();
            let limit = Duration::from_millis(milliseconds);
            let reading = schedule.start(at(0), limit).expect("the first");
            let limits = (reading.read_until, reading.deadline);
            assert_eq!(limits, (at(read_until), at(deadline)));
            assert!(!schedule.abandon_overdue(at(deadline - 1)));
            assert_eq!(schedule.current(), Some(reading));
            assert!(schedule.abandon_overdue(at(deadline)));
            assert_eq!(schedule.current(), None);
        }
    }

    #[test]
    fn the_result_of_an_abandoned_reading_is_dropped() {
        let mut schedule = Schedule::default();
        let stuck = schedule.start(at(0), SIX).expect("the first");
        assert_eq!(schedule.start(at(1), SIX), None, "one is in progress");
        assert!(schedule.abandon_overdue(at(6)));
        assert!(!schedule.abandon_overdue(at(6)), "only once");
        let next = schedule.start(at(7), SIX).expect("a second reader");
        assert!(!schedule.complete(stuck), "too late");
        schedule.ended(stuck);
        assert!(!schedule.is_completed(stuck.number));
        assert!(schedule.complete(next) && schedule.is_completed(stuck.number));
        schedule.ended(next);
        assert_eq!(schedule.readers(), 0);
    }

    #[test]
    fn two_stuck_readers_are_the_limit() {
        let mut schedule = Schedule::default();
        let mut stuck = Vec::new();
        for minute in 1..=4 {
            stuck.extend(schedule.start(at(60 * minute), SIX));
            schedule.abandon_overdue(at(60 * minute + 30));
        }
        assert_eq!(stuck.len(), 2);
        schedule.ended(stuck[1]);
        assert!(schedule.start(at(300), SIX).is_some());
    }

    #[test]
    fn a_reader_that_ends_without_a_result_leaves_room_for_another() {
        let mut schedule = Schedule::default();
        let reading = schedule.start(at(0), SIX).expect("the first");
        schedule.ended(reading);
        assert!(!schedule.is_completed(reading.number));
        assert!(schedule.start(at(1), SIX).is_some());
        schedule.close();
        schedule.abandon_overdue(at(60));
        assert_eq!(schedule.start(at(60), SIX), None);
    }
}
