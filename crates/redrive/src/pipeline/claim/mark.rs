//! Marks: places in the claim index, which has the ranks in their order and in each the ids. Pure.

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

    /// The parts of the index that these ranks, in their order, leave.
    pub(crate) fn between(ranks: impl Iterator<Item = i32>) -> Vec<IndexRange> {
        let (mut parts, mut open) = (Vec::new(), IndexRange::ALL);
        for to_rank in ranks {
            parts.push(IndexRange { to_rank, ..open });
            (open.from_rank, open.from_id) = (to_rank, i64::MAX);
        }
        parts.push(open);
        parts
    }
}

/// The ids of a rank after one and up to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdRange {
    pub(crate) rank: i32,
    pub(crate) after: i64,
    pub(crate) to: i64,
}

/// Where a claim scans the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scan {
    /// From the start.
    Full,
    /// Windows from the marks.
    FromMarks,
    /// The ranks between those with marks.
    Gaps,
    /// A window below the marks.
    Sweep,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redriven_jobs_follow_new_ones_of_the_same_priority() {
        let of = |priority| [rank(priority, 0), rank(priority, 3)];
        let ranks = [of(2), of(1), of(0), of(-1)].concat();
        assert!(ranks.is_sorted(), "{ranks:?}");
        assert_eq!(rank(1, 1), rank(1, 7));
        assert!(rank(0, 0) < rank(0, 1) && rank(0, 1) < rank(-1, 0));
    }
}
