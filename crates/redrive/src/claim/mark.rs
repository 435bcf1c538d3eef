//! The mark: where a claim begins, so that it does not walk over dead rows. Pure.
//!
//! While somebody holds the xmin horizon, vacuum cannot remove the rows that claims deleted, and
//! a claim that begins at the start of the index walks over all of them. But ids grow, so a
//! process that has claimed up to some id in a priority may begin there. Rows *can* appear
//! below: a commit that came late, a retry, a release. So the mark is a hint, and the whole index
//! is looked at again and again: always while that is cheap, and never for more than a
//! [twentieth](SHARE) of the time when it is not.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::floor::Instant;

/// Full looks get one part in this many of the time.
const SHARE: u32 = 20;
/// A full look that is as fast as this is always affordable.
const CHEAP: Duration = Duration::from_millis(2);

/// A part of the claim index: from after (rank, id) to below a rank. The rank is the negated
/// priority, so that ranks rise in the order of the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) from_rank: i16,
    pub(crate) from_id: i64,
    pub(crate) to_rank: i16,
}

const ALL: Range = Range {
    from_rank: i16::MIN,
    from_id: 0,
    to_rank: i16::MAX,
};

/// How a claim looks at the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// From the start.
    Full,
    /// From the marks.
    Marked,
}

/// The marks of one process on one queue.
#[derive(Debug)]
pub(crate) struct Marks {
    /// By rank, the highest id claimed.
    last_id: BTreeMap<i16, i64>,
    full_look_at: Option<Instant>,
    full_look_took: Duration,
}

impl Marks {
    pub(crate) fn new() -> Marks {
        Marks {
            last_id: BTreeMap::new(),
            full_look_at: None,
            full_look_took: Duration::ZERO,
        }
    }

    /// How to look now.
    pub(crate) fn look(&self, now: Instant) -> Look {
        if self.full_look_in(now).is_zero() {
            Look::Full
        } else {
            Look::Marked
        }
    }

    /// The ranges to look at, in the order of the claim; so many ids after the marks.
    ///
    /// Where several workers claim full batches, what comes right after the mark of one is what the
    /// others are at: rows to walk over one by one because they are locked or just deleted. A lead
    /// of a batch for each of them has all take steps past one another. What is left between, a
    /// full look finds, as all else below a mark.
    pub(crate) fn ranges(&self, look: Look, lead: i64) -> Vec<Range> {
        match look {
            Look::Full => vec![ALL],
            Look::Marked => {
                let mut ranges = Vec::with_capacity(self.last_id.len() + 1);
                let mut open = ALL;
                for (&rank, &id) in &self.last_id {
                    ranges.push(Range {
                        to_rank: rank,
                        ..open
                    });
                    open = Range {
                        from_rank: rank,
                        from_id: id.saturating_add(lead),
                        to_rank: i16::MAX,
                    };
                }
                ranges.push(open);
                ranges
            }
        }
    }

    /// In how long a full look is affordable again.
    pub(crate) fn full_look_in(&self, now: Instant) -> Duration {
        match self.full_look_at {
            Some(at) if self.full_look_took > CHEAP => {
                (self.full_look_took * SHARE).saturating_sub(now.saturating_duration_since(at))
            }
            Some(_) | None => Duration::ZERO,
        }
    }

    /// Takes note of a claim that was answered: what it got, as (priority, id) in the order of
    /// the claim, whether that was all there was, and when and how long it looked.
    ///
    /// A full look that did not get all there is has left nothing before its last job, so the
    /// mark goes there, also backwards: that is how a claim gets to retried jobs, whose ids are
    /// old. After any other look the mark only moves on.
    pub(crate) fn note(
        &mut self,
        look: Look,
        asked_at: Instant,
        took: Duration,
        got: Got,
        claimed: impl Iterator<Item = (i16, i64)>,
    ) {
        for (priority, id) in claimed {
            let last = self.last_id.entry(-priority).or_insert(id);
            *last = match (look, got) {
                (Look::Full, Got::Enough) => id,
                (Look::Full, Got::All) | (Look::Marked, _) => id.max(*last),
            };
        }
        match look {
            Look::Full => {
                self.full_look_at = Some(asked_at);
                self.full_look_took = took;
            }
            Look::Marked => {}
        }
    }
}

/// Whether a claim got as many jobs as it asked for, or all that it saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// As many as it asked for: there may be more.
    Enough,
    /// All that there was where it looked.
    All,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_first_look_is_full_and_cheap_looks_stay_full() {
        let now = Instant::now();
        let mut marks = Marks::new();
        assert_eq!(marks.look(now), Look::Full);
        marks.note(Look::Full, now, 2 * MS, Got::All, std::iter::empty());
        assert_eq!(marks.look(now), Look::Full);
    }

    #[test]
    fn expensive_looks_get_a_twentieth_of_the_time() {
        let now = Instant::now();
        let mut marks = Marks::new();
        marks.note(Look::Full, now, 50 * MS, Got::All, std::iter::empty());
        assert_eq!(marks.look(now + 999 * MS), Look::Marked);
        assert_eq!(marks.look(now + 1000 * MS), Look::Full);
    }

    #[test]
    fn a_full_look_takes_the_mark_back_to_jobs_that_came_back() {
        let mut marks = Marks::new();
        let now = Instant::now();
        marks.note(Look::Marked, now, MS, Got::Enough, [(0, 900)].into_iter());
        marks.note(
            Look::Full,
            now,
            MS,
            Got::Enough,
            [(0, 1), (0, 2)].into_iter(),
        );
        assert_eq!(marks.ranges(Look::Marked, 0)[1].from_id, 2);
        marks.note(Look::Full, now, MS, Got::All, [(0, 1)].into_iter());
        assert_eq!(marks.ranges(Look::Marked, 0)[1].from_id, 2);
    }

    #[test]
    fn marked_ranges_leave_out_only_what_was_walked() {
        let mut marks = Marks::new();
        let now = Instant::now();
        assert_eq!(marks.ranges(Look::Marked, 0), [ALL]);
        marks.note(
            Look::Marked,
            now,
            MS,
            Got::Enough,
            [(5, 70), (5, 60), (0, 90), (-3, 10)].into_iter(),
        );
        let range = |from_rank, from_id, to_rank| Range {
            from_rank,
            from_id,
            to_rank,
        };
        assert_eq!(
            marks.ranges(Look::Marked, 0),
            [
                range(i16::MIN, 0, -5),
                range(-5, 70, 0),
                range(0, 90, 3),
                range(3, 10, i16::MAX),
            ]
        );
        assert_eq!(marks.ranges(Look::Full, 0), [ALL]);
        assert_eq!(
            marks.ranges(Look::Marked, 1000),
            [
                range(i16::MIN, 0, -5),
                range(-5, 1070, 0),
                range(0, 1090, 3),
                range(3, 1010, i16::MAX),
            ]
        );
        assert_eq!(marks.ranges(Look::Full, 1000), [ALL], "nothing is left out");
    }
}
