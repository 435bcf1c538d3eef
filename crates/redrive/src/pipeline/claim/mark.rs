//! Marks: places in the claim index, which has the ranks in their order and in each the ids. Pure.

/// Returns the rank of a job: claims take jobs in the order of rank, then id. The rank falls with the
/// priority, and redriven jobs come after new ones of the same priority.
pub(crate) fn rank(priority: i16, generation: u32) -> i32 {
    i32::from(generation > 0) - 2 * i32::from(priority)
}

/// A part of the claim index: after (rank, id) and up to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) rank: i32,
    pub(crate) after: i64,
    pub(crate) to: i64,
}

/// The parts of the claim index to scan, in claim order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Parts {
    /// Each ends below a rank.
    Ranks(Vec<Part>),
    /// Each ends with an id of its rank.
    Ids(Vec<Part>),
}

impl Parts {
    /// The whole index.
    pub(crate) fn all() -> Parts {
        Parts::between(std::iter::empty())
    }

    /// The parts of the index that these ranks, in their order, leave.
    pub(crate) fn between(ranks: impl Iterator<Item = i32>) -> Parts {
        let (mut parts, mut start) = (Vec::new(), (i32::MIN, 0));
        for end in ranks.chain([i32::MAX]) {
            let ((rank, after), to) = (start, end.into());
            parts.push(Part { rank, after, to });
            start = (end, i64::MAX);
        }
        Parts::Ranks(parts)
    }
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
