//! Marks: places in the claim index, which has the ranks in their order and in each the ids. Pure.

/// Returns the rank of a job: claims take jobs in the order of rank, then id. The rank falls with the
/// priority, and redriven jobs come after new ones of the same priority.
pub(crate) fn rank(priority: i16, generation: u32) -> i32 {
    i32::from(generation > 0) - 2 * i32::from(priority)
}

/// A part of the claim index: after (rank, id) and up to an end, which is an id of its rank or, if a scan reads ranks,
/// the next rank that it leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) rank: i32,
    pub(crate) after: i64,
    pub(crate) to: i64,
}

/// Returns the parts of the index that these ranks, in their order, leave.
pub(crate) fn between(ranks: impl IntoIterator<Item = i32>) -> Vec<Part> {
    let (mut parts, mut start) = (Vec::new(), (i32::MIN, 0));
    for end in ranks.into_iter().chain([i32::MAX]) {
        let ((rank, after), to) = (start, end.into());
        parts.push(Part { rank, after, to });
        start = (end, i64::MAX);
    }
    parts
}

/// Where a claim scans the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scan {
    /// Ranks: all.
    Full,
    /// Windows of ids from the marks.
    FromMarks,
    /// Ranks: those between the ones with marks.
    Gaps,
    /// A window of ids below the marks.
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
