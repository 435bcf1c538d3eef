//! Decides which thread reads the database, for which scrapes, and until when. Pure: no clock, no
//! threads, no database.
//!
//! A *shared reading* serves every scrape that arrives before it is complete. A *reader* is a thread
//! with a connection. One reader at a time is the *leader*, and only its results count. A leader that
//! misses the deadline of a reading is abandoned, and one more reader may start. If that one is
//! abandoned as well, nothing reads until one of the two is free again. There are therefore never
//! more than two connections.
//!
//! Each reading has a minimum time, so that a scrape with a short timeout does not abandon a
//! connection that other scrapes can still use.

use std::time::{Duration, Instant};

/// The minimum time for the queries of a reading.
const MIN_READ: Duration = Duration::from_secs(1);
/// The minimum time before a reader is abandoned.
const MIN_DEADLINE: Duration = Duration::from_secs(5);

/// The maximum number of readers: the leader, and one that was abandoned.
const MAX_READERS: usize = 2;

/// The number of a reader.
pub(super) type ReaderId = u64;

/// One reading, shared by all scrapes that wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharedReading {
    /// Its number, from 1.
    pub(super) number: u64,
    /// When its queries should end.
    pub(super) read_until: Instant,
    /// When its reader is abandoned.
    pub(super) deadline: Instant,
}

/// The next task of an idle reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReaderTask {
    /// Read the database.
    Read(SharedReading),
    /// Nothing was requested.
    Wait,
    /// Another reader is the leader: close the connection and end.
    Exit,
}

/// The readers and the reading in progress.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// The reading that was requested and is not over.
    current: Option<SharedReading>,
    /// Whether a reader has taken it.
    is_taken: bool,
    /// The number of the last requested reading.
    requested: u64,
    /// The number of the last reading that was completed or abandoned.
    over: u64,
    /// The number of the last completed reading.
    completed: u64,
    leader: Option<ReaderId>,
    /// The number of readers, abandoned ones included.
    readers: usize,
    last_reader: ReaderId,
    is_closing: bool,
}

impl Schedule {
    /// Returns the reading in progress, or requests one with this time limit.
    pub(super) fn join(&mut self, now: Instant, limit: Duration) -> SharedReading {
        self.abandon_overdue(now);
        *self.current.get_or_insert_with(|| {
            self.requested += 1;
            self.is_taken = false;
            SharedReading {
                number: self.requested,
                read_until: now + limit.max(MIN_READ),
                deadline: now + limit.max(MIN_DEADLINE),
            }
        })
    }

    /// Returns whether the reading was completed or abandoned.
    pub(super) fn is_over(&self, reading: SharedReading) -> bool {
        self.over >= reading.number
    }

    /// Returns whether the reading, or a later one, was completed.
    pub(super) fn is_completed(&self, reading: SharedReading) -> bool {
        self.completed >= reading.number
    }

    /// Appoints a new reader as leader, for the caller to start. Returns `None` if there is a leader
    /// or there are two readers already.
    pub(super) fn appoint(&mut self) -> Option<ReaderId> {
        if self.leader.is_some() || self.readers >= MAX_READERS || self.is_closing {
            return None;
        }
        self.last_reader += 1;
        self.readers += 1;
        self.leader = Some(self.last_reader);
        self.leader
    }

    /// Returns what a reader does next. An abandoned one becomes leader again if there is none.
    pub(super) fn task(&mut self, reader: ReaderId) -> ReaderTask {
        if self.is_closing || *self.leader.get_or_insert(reader) != reader {
            return ReaderTask::Exit;
        }
        match self.current {
            Some(reading) if !self.is_taken => {
                self.is_taken = true;
                ReaderTask::Read(reading)
            }
            _ => ReaderTask::Wait,
        }
    }

    /// Completes a reading. Returns whether its result counts.
    pub(super) fn complete(&mut self, reader: ReaderId, reading: SharedReading) -> bool {
        let counts = self.leader == Some(reader) && self.current == Some(reading);
        if counts {
            self.completed = reading.number;
            self.end(reading);
        }
        counts
    }

    /// Abandons the reading in progress, and its leader, if the deadline has passed.
    ///
    /// Returns whether this call abandoned it.
    pub(super) fn abandon_overdue(&mut self, now: Instant) -> bool {
        let Some(reading) = self.current.filter(|reading| now >= reading.deadline) else {
            return false;
        };
        self.leader = None;
        self.end(reading);
        true
    }

    /// Records that a reader has ended and its connection is closed.
    pub(super) fn exited(&mut self, reader: ReaderId) {
        self.readers = self.readers.saturating_sub(1);
        if self.leader == Some(reader) {
            self.leader = None;
            // The next leader takes over its reading.
            self.is_taken = false;
        }
    }

    /// Lets every idle reader exit from now on.
    pub(super) fn close(&mut self) {
        self.is_closing = true;
    }

    /// Returns the number of readers, abandoned ones included.
    pub(super) fn readers(&self) -> usize {
        self.readers
    }

    fn end(&mut self, reading: SharedReading) {
        self.over = reading.number;
        self.current = None;
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
    fn overlapping_scrapes_share_a_reading() {
        let mut schedule = Schedule::default();
        let reader = schedule.appoint().expect("there is no leader");
        assert_eq!(schedule.appoint(), None, "one leader is enough");
        assert_eq!(schedule.task(reader), ReaderTask::Wait);
        let first = schedule.join(at(0), SIX);
        assert_eq!(schedule.join(at(1), SIX), first, "shared before it starts");
        assert_eq!(schedule.task(reader), ReaderTask::Read(first));
        assert_eq!(
            schedule.join(at(2), SIX),
            first,
            "shared while it is in progress"
        );
        assert_eq!(schedule.task(reader), ReaderTask::Wait, "it is taken");
        assert!(!schedule.is_over(first) && !schedule.is_completed(first));
        assert!(schedule.complete(reader, first));
        assert!(schedule.is_over(first) && schedule.is_completed(first));
        let second = schedule.join(at(2), SIX);
        assert_ne!(second, first, "a completed reading is not fresh any more");
        assert!(!schedule.is_over(second));
        assert_eq!(schedule.task(reader), ReaderTask::Read(second));
    }

    #[test]
    fn a_scrape_with_a_short_timeout_does_not_abandon_the_connection() {
        let mut schedule = Schedule::default();
        let short = schedule.join(at(0), Duration::from_millis(100));
        assert_eq!((short.read_until, short.deadline), (at(1), at(5)));
        assert!(!schedule.abandon_overdue(at(4)));
        assert_eq!(schedule.join(at(4), SIX), short);
        let mut schedule = Schedule::default();
        let long = schedule.join(at(0), SIX);
        assert_eq!((long.read_until, long.deadline), (at(6), at(6)));
    }

    #[test]
    fn an_abandoned_leader_is_replaced_and_its_result_dropped() {
        let mut schedule = Schedule::default();
        let stuck = schedule.appoint().expect("the first");
        let reading = schedule.join(at(0), SIX);
        assert_eq!(schedule.task(stuck), ReaderTask::Read(reading));
        assert!(!schedule.abandon_overdue(at(5)), "before the deadline");
        assert!(schedule.abandon_overdue(at(6)) && schedule.is_over(reading));
        assert!(!schedule.abandon_overdue(at(6)), "only once");
        assert!(!schedule.is_completed(reading));

        let successor = schedule.appoint().expect("a second reader");
        let next = schedule.join(at(7), SIX);
        assert!(!schedule.complete(stuck, reading), "too late");
        assert!(!schedule.complete(stuck, next), "not its reading");
        assert_eq!(schedule.task(stuck), ReaderTask::Exit);
        assert_eq!(schedule.task(successor), ReaderTask::Read(next));
        schedule.exited(stuck);
        assert!(schedule.complete(successor, next));
        assert_eq!(schedule.readers(), 1);
    }

    #[test]
    fn two_stuck_readers_are_the_limit_and_the_first_free_one_leads() {
        let mut schedule = Schedule::default();
        let mut readers = Vec::new();
        for minute in 1..=4 {
            let reading = schedule.join(at(60 * minute), SIX);
            if let Some(reader) = schedule.appoint() {
                assert_eq!(schedule.task(reader), ReaderTask::Read(reading));
                readers.push(reader);
            }
        }
        let [one, two] = *readers else {
            panic!("{readers:?}")
        };
        let reading = schedule.join(at(300), SIX);
        assert!(!schedule.complete(two, reading), "not its reading");
        assert_eq!(schedule.task(two), ReaderTask::Read(reading), "it leads");
        assert_eq!(schedule.task(one), ReaderTask::Exit);
        assert!(schedule.complete(two, reading));
    }

    #[test]
    fn the_next_leader_takes_over_the_reading_of_one_that_ended() {
        let mut schedule = Schedule::default();
        let one = schedule.appoint().expect("the first");
        let reading = schedule.join(at(0), SIX);
        assert_eq!(schedule.task(one), ReaderTask::Read(reading));
        schedule.exited(one);
        let two = schedule.appoint().expect("the next");
        assert_eq!(schedule.task(two), ReaderTask::Read(reading));
    }

    #[test]
    fn readers_exit_after_close() {
        let mut schedule = Schedule::default();
        let reader = schedule.appoint().expect("the first");
        schedule.join(at(0), SIX);
        schedule.close();
        assert_eq!(schedule.task(reader), ReaderTask::Exit);
        schedule.exited(reader);
        assert_eq!((schedule.appoint(), schedule.readers()), (None, 0));
    }
}
