//! Marks: where a claim starts, so that it does not scan index entries of dead rows. Pure.
//!
//! While a transaction holds the xmin horizon, vacuum cannot remove rows that claims deleted, and a
//! claim from the start of the index scans all of them. Ids grow, so each claim starts where the
//! previous one of this process ended, per priority. Jobs can appear below the mark: a late commit,
//! a retry, a release, an aged priority. The worker therefore also scans from the start: always when that is cheap,
//! otherwise at most [5 %](SHARE) of the time.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::pipeline::claim::demand::Fill;
use crate::sync::Instant;

/// Full scans get one part in this many of the time.
const SHARE: u32 = 20;
/// A full scan this fast is always affordable.
const CHEAP: Duration = Duration::from_millis(2);

/// Returns the rank of a job: claims take jobs in the order of rank, then id. The rank falls with the
/// priority, and redriven jobs come after new ones of the same priority.
pub(crate) fn rank(priority: i16, generation: u32) -> i32 {
    i32::from(generation > 0) - 2 * i32::from(priority)
}

/// A part of the claim index: from after (rank, id) to below a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexRange {
    pub(crate) from_rank: i32,
    pub(crate) from_id: i64,
    pub(crate) to_rank: i32,
}

impl IndexRange {
    /// The whole index.
    pub(crate) const ALL: IndexRange = IndexRange {
        from_rank: i32::MIN,
        from_id: 0,
        to_rank: i32::MAX,
    };

    /// The parts of the index that these ids, in claim order, leave: what lies after each, up to the rank of the next.
    pub(crate) fn from_ids(ids: impl Iterator<Item = (i32, i64)>) -> Vec<IndexRange> {
        let (mut parts, mut open) = (Vec::new(), IndexRange::ALL);
        for (to_rank, id) in ids {
            parts.push(IndexRange { to_rank, ..open });
            (open.from_rank, open.from_id) = (to_rank, id);
        }
        parts.push(open);
        parts
    }
}

/// Where a claim scans the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scan {
    /// From the start.
    Full,
    /// From the marks.
    FromMarks,
    /// The ranks between those with marks.
    Gaps,
    /// A window below the marks.
    Sweep,
}

/// The marks of one process on one queue.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// The highest claimed id by rank.
    last_id: BTreeMap<i32, i64>,
    /// When a full scan is affordable. `None`: now.
    full_at: Option<Instant>,
}

impl Marks {
    /// Returns which scan to use now.
    pub(crate) fn look(&self, now: Instant) -> Scan {
        if self.full_look_in(now).is_zero() {
            Scan::Full
        } else {
            Scan::FromMarks
        }
    }

    /// Returns the ranges to scan, in claim order, starting `lead` ids after the marks.
    ///
    /// When several workers claim full batches, the ids right after one worker's mark are locked or
    /// just deleted by the others. A lead of one batch per other worker lets them step past each
    /// other. A full scan finds what lies between.
    pub(crate) fn ranges(&self, look: Scan, lead: i64) -> Vec<IndexRange> {
        if look == Scan::Full {
            return vec![IndexRange::ALL];
        }
        let marks = self.last_id.iter();
        IndexRange::from_ids(marks.map(|(&rank, &id)| (rank, id.saturating_add(lead))))
    }

    /// Returns the time until a full scan is affordable.
    pub(crate) fn full_look_in(&self, now: Instant) -> Duration {
        self.full_at
            .map_or(Duration::ZERO, |at| at.saturating_duration_since(now))
    }

    /// Records a claim: its jobs as (rank, id) in claim order, whether it was full, when it
    /// started and how long it took.
    ///
    /// A full scan that returned a full batch left nothing before its last job, so the mark moves
    /// there, even backwards. That is how a claim reaches retried jobs, whose ids are old.
    /// Otherwise the mark only moves forward.
    pub(crate) fn note(
        &mut self,
        look: Scan,
        asked_at: Instant,
        took: Duration,
        got: Fill,
        claimed: impl Iterator<Item = (i32, i64)>,
    ) {
        let is_first = look == Scan::Full && got == Fill::Full;
        for (rank, id) in claimed {
            let last = self.last_id.entry(rank).or_insert(id);
            *last = if is_first { id } else { id.max(*last) };
        }
        self.note_time(look, asked_at, took);
    }

    /// Records when a claim started and how long it took, also of one that failed: a full scan that
    /// exceeds the timeout must not be the next one again.
    pub(crate) fn note_time(&mut self, look: Scan, asked_at: Instant, took: Duration) {
        if look == Scan::Full {
            self.full_at = (took > CHEAP).then(|| asked_at + took * SHARE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn redriven_jobs_follow_new_ones_of_the_same_priority() {
        let of = |priority| [rank(priority, 0), rank(priority, 3)];
        let ranks = [of(2), of(1), of(0), of(-1)].concat();
        assert!(ranks.is_sorted(), "{ranks:?}");
        assert_eq!(rank(1, 1), rank(1, 7));
        assert!(rank(0, 0) < rank(0, 1) && rank(0, 1) < rank(-1, 0));
    }

    /// Also one that failed.
    #[test]
    fn expensive_full_scans_get_a_twentieth_of_the_time() {
        let now = Instant::now();
        assert_eq!(Marks::default().look(now), Scan::Full, "the first one");
        for (took, after, next) in [
            (2, 0, Scan::Full),
            (50, 999, Scan::FromMarks),
            (50, 1000, Scan::Full),
            (10_000, 10_000, Scan::FromMarks),
        ] {
            let mut marks = Marks::default();
            marks.note_time(Scan::Full, now, took * MS);
            assert_eq!(marks.look(now + after * MS), next, "{took} {after}");
        }
    }

    #[test]
    fn a_full_scan_moves_the_mark_back_to_returned_jobs() {
        let mut marks = Marks::default();
        let now = Instant::now();
        marks.note(Scan::FromMarks, now, MS, Fill::Full, [(0, 900)].into_iter());
        let first = [(0, 1), (0, 2)].into_iter();
        marks.note(Scan::Full, now, MS, Fill::Full, first);
        assert_eq!(marks.ranges(Scan::FromMarks, 0)[1].from_id, 2);
        marks.note(Scan::Full, now, MS, Fill::Partial, [(0, 1)].into_iter());
        assert_eq!(marks.ranges(Scan::FromMarks, 0)[1].from_id, 2);
    }

    #[test]
    fn marked_ranges_skip_only_what_was_scanned() {
        let mut marks = Marks::default();
        let now = Instant::now();
        assert_eq!(marks.ranges(Scan::FromMarks, 0), [IndexRange::ALL]);
        let found = [(-5, 70), (-5, 60), (0, 90), (3, 10)].into_iter();
        marks.note(Scan::FromMarks, now, MS, Fill::Full, found);
        let range = |from_rank, from_id, to_rank| IndexRange {
            from_rank,
            from_id,
            to_rank,
        };
        for lead in [0, 1000] {
            let expected = [
                range(i32::MIN, 0, -5),
                range(-5, lead + 70, 0),
                range(0, lead + 90, 3),
                range(3, lead + 10, i32::MAX),
            ];
            assert_eq!(marks.ranges(Scan::FromMarks, lead), expected);
            let full = marks.ranges(Scan::Full, lead);
            assert_eq!(full, [IndexRange::ALL], "nothing is left out");
        }
    }
}
