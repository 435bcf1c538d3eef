//! Search: whether a claim reads the whole index of its queue or windows of it. Pure.
//!
//! Most queues are short, so a claim reads them whole. In a large queue it reads
//! [windows](super::windows). A process measures the queue before its first claim, again when it has
//! grown or after a claim that took long or took many jobs, and a large one every few seconds, to learn the newest id.

use std::time::Duration;

use crate::pipeline::claim::Parts;
use crate::pipeline::claim::demand::Fill;
use crate::pipeline::claim::mark::{IndexRange, Scan};
use crate::pipeline::claim::windows::{Front, Window, Windows};
use crate::sync::Instant;

/// The size of all ready jobs, with dead rows, up to which a claim reads its whole queue: as much as
/// takes a few milliseconds.
pub(crate) const SMALL_BYTES: i64 = 2 * 1024 * 1024;
/// After a claim that took this long and found little, or five times as long, the queue is measured again.
const SLOW: Duration = Duration::from_millis(2);
/// A claim of so many jobs leaves dead rows that the next ones had to pass, so the queue is measured again, too.
const MANY: usize = 500;
/// How often to measure a queue that claims read whole.
const MEASURE_EVERY: Duration = Duration::from_millis(100);

/// Where the claims of one process on one queue search.
#[derive(Debug)]
pub(crate) struct Search {
    place: Place,
    /// Whether the next measurement looks for ranks.
    ranks: Ranks,
    /// The size of the queue when it was measured.
    bytes: i64,
}

#[derive(Debug)]
enum Place {
    /// Not measured yet.
    Unknown,
    /// In the whole queue, which is short, or all of which was read in a moment.
    Whole { measured_at: Instant },
    /// In windows.
    Windowed(Windows),
}

/// Whether to look for the ranks of ready jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ranks {
    Find,
    /// They are known, or looking for them failed.
    Known,
}

/// The size of a queue.
#[derive(Debug)]
pub(crate) struct Measured {
    /// The bytes of the ready jobs of all queues.
    pub(crate) bytes: i64,
    pub(crate) newest: i64,
    /// The ranks of its jobs with a priority, if they were looked for.
    pub(crate) ranks: Vec<i32>,
}

/// The parts of the index that a claim reads.
#[derive(Debug)]
pub(crate) enum Look {
    Whole,
    Gaps(Vec<IndexRange>),
    Front(Front),
    Sweep(Window),
}

impl Look {
    pub(crate) fn parts(&self) -> Parts {
        match self {
            Look::Whole => Parts::Ranges(vec![IndexRange::ALL]),
            Look::Gaps(ranges) => Parts::Ranges(ranges.clone()),
            Look::Front(front) => Parts::Ids(front.parts.clone()),
            Look::Sweep(window) => Parts::Ids(window.parts.clone()),
        }
    }
}

/// A claim that returned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) asked_at: Instant,
    pub(crate) took: Duration,
    /// How many ids after the marks it started.
    pub(crate) lead: i64,
    pub(crate) fill: Fill,
}

impl Search {
    pub(crate) fn new() -> Search {
        Search {
            place: Place::Unknown,
            ranks: Ranks::Find,
            bytes: 0,
        }
    }

    /// Returns whether to measure the queue, and whether to look for ranks then. `bytes` is the size of
    /// all queues, as far as known.
    pub(crate) fn wants_measure(&mut self, now: Instant, bytes: i64) -> Option<Ranks> {
        if bytes > SMALL_BYTES.max(self.bytes.saturating_mul(2)) {
            self.measure_again(now);
        }
        let is_due = match &self.place {
            Place::Unknown => true,
            Place::Whole { .. } => false,
            Place::Windowed(windows) => windows.is_sample_due(now),
        };
        is_due.then_some(self.ranks)
    }

    /// Lets a queue that is read whole be measured again, unless it has just been.
    fn measure_again(&mut self, now: Instant) {
        if let Place::Whole { measured_at } = self.place
            && now.saturating_duration_since(measured_at) >= MEASURE_EVERY
        {
            *self = Search::new();
        }
    }

    /// Records the size of the queue.
    pub(crate) fn measured(&mut self, now: Instant, found: Measured) {
        self.bytes = found.bytes;
        match &mut self.place {
            Place::Unknown if found.bytes <= SMALL_BYTES => {
                self.place = Place::Whole { measured_at: now };
            }
            Place::Unknown => {
                let mut windows = Windows::new(now, found.newest);
                windows.add_ranks(found.ranks.into_iter());
                self.place = Place::Windowed(windows);
            }
            Place::Windowed(windows) => {
                windows.add_ranks(found.ranks.into_iter());
                windows.sample(now, found.newest);
            }
            Place::Whole { .. } => {}
        }
        self.ranks = Ranks::Known;
    }

    /// Records that the queue could not be measured. The next attempt does less.
    pub(crate) fn not_measured(&mut self) {
        self.ranks = Ranks::Known;
    }

    /// Returns the scans of the next claims.
    pub(crate) fn scans(&self, now: Instant) -> Vec<Scan> {
        let Some(windows) = self.place.windows() else {
            return vec![Scan::Full];
        };
        let gaps = (windows.gaps_at() <= now).then_some(Scan::Gaps);
        let is_due = windows.sweep_in(now) == Some(Duration::ZERO);
        let sweep = is_due.then_some(Scan::Sweep);
        let before = gaps.into_iter().chain(sweep);
        before.chain([Scan::FromMarks]).collect()
    }

    /// Returns what a claim with this scan reads, starting `lead` ids after the marks.
    pub(crate) fn look(&self, scan: Scan, lead: i64) -> Look {
        match (&self.place, scan) {
            (Place::Unknown | Place::Whole { .. }, _) => Look::Whole,
            (Place::Windowed(windows), Scan::Gaps) => Look::Gaps(windows.gaps()),
            (Place::Windowed(windows), Scan::Sweep) => Look::Sweep(windows.window()),
            (Place::Windowed(windows), Scan::Full | Scan::FromMarks) => {
                Look::Front(windows.front(lead))
            }
        }
    }

    /// Whether the marks have not reached the settled ids, so that the next claim may find jobs.
    pub(crate) fn is_behind(&self) -> bool {
        self.place.windows().is_some_and(Windows::is_behind)
    }

    /// Returns the time until a claim may read what lies below the marks. `None`: claims read the whole queue.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        let windows = self.place.windows()?;
        match windows.is_behind() {
            true => Some(Duration::ZERO),
            false => windows.sweep_in(now).or(Some(Duration::ZERO)),
        }
    }

    /// Records a claim and its jobs as (rank, id) in claim order, unless another fetcher has changed the
    /// search meanwhile.
    pub(crate) fn note(
        &mut self,
        look: &Look,
        ended: Ended,
        claimed: impl Iterator<Item = (i32, i64)>,
    ) {
        let (asked_at, took, fill) = (ended.asked_at, ended.took, ended.fill);
        match (&mut self.place, look) {
            (Place::Whole { .. }, Look::Whole) => {
                let is_slow = took > SLOW && fill == Fill::Partial || took > SLOW * 5;
                if is_slow || claimed.count() >= MANY {
                    self.measure_again(asked_at + took);
                }
            }
            (Place::Windowed(windows), Look::Front(front)) => {
                windows.note_front(front, ended.lead, took, fill, claimed);
            }
            (Place::Windowed(windows), Look::Gaps(_)) => {
                windows.note_gaps(asked_at, claimed);
                if took > SLOW {
                    self.ranks = Ranks::Find;
                }
            }
            (Place::Windowed(windows), Look::Sweep(window)) => {
                if !windows.note_sweep(window, asked_at, took, fill, claimed.count()) {
                    self.place = Place::Whole {
                        measured_at: asked_at,
                    };
                }
            }
            (Place::Unknown | Place::Whole { .. } | Place::Windowed(_), _) => {}
        }
    }

    /// Records a claim that failed.
    pub(crate) fn note_failure(&mut self, look: &Look, asked_at: Instant, took: Duration) {
        match (&mut self.place, look) {
            (Place::Whole { .. }, Look::Whole) if took > SLOW => {
                self.measure_again(asked_at + took);
            }
            (Place::Windowed(windows), look) => {
                windows.note_failure(asked_at, took, matches!(look, Look::Sweep(_)));
            }
            (Place::Unknown | Place::Whole { .. }, _) => {}
        }
    }
}

impl Place {
    fn windows(&self) -> Option<&Windows> {
        match self {
            Place::Windowed(windows) => Some(windows),
            Place::Unknown | Place::Whole { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
