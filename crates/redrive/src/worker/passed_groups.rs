//! The groups in which a job of this process has just ended, so that the next claims look at them.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::sync::Mutex;
use crate::worker::latch::lock;

/// How many groups to remember. The walk over all groups finds the others.
const MAX_PASSED: usize = 500;

/// The groups whose turn has just passed on.
#[derive(Default)]
pub(crate) struct PassedGroups(Mutex<Passed>);

#[derive(Default)]
struct Passed {
    latest: VecDeque<Arc<str>>,
    /// How many were noted in all.
    noted: usize,
}

impl PassedGroups {
    /// Records groups.
    pub(crate) fn note(&self, groups: impl IntoIterator<Item = Arc<str>>) {
        let mut passed = lock(&self.0);
        let before = passed.latest.len();
        for group in groups {
            // The jobs of a turn end one after the other.
            if passed.latest.len() == before || passed.latest.back() != Some(&group) {
                passed.latest.push_back(group);
                passed.noted += 1;
            }
        }
        let more = passed.latest.len().saturating_sub(MAX_PASSED);
        passed.latest.drain(..more);
    }

    /// Returns the latest groups that were noted after the first `seen`, and how many have been noted.
    pub(crate) fn since(&self, seen: usize) -> (Vec<Arc<str>>, usize) {
        let passed = lock(&self.0);
        let (latest, new) = (&passed.latest, passed.noted - seen);
        let latest = latest.iter().skip(latest.len().saturating_sub(new));
        (latest.cloned().collect(), passed.noted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_sees_each_turn_that_has_passed_on_since_its_last_look() {
        let passed = PassedGroups::default();
        let note = |groups: &str| passed.note(groups.split(' ').map(Arc::from));
        let since = |seen| {
            let (groups, seen) = passed.since(seen);
            (groups.join(" "), seen)
        };
        // Two jobs of one turn, and another turn.
        note("a a b");
        assert_eq!(since(0), ("a b".to_owned(), 2));
        assert_eq!(since(2), (String::new(), 2));
        note("b");
        assert_eq!(since(2), ("b".to_owned(), 3));
        assert_eq!(since(0), ("a b b".to_owned(), 3), "another walk");
        (0..MAX_PASSED).for_each(|_| note("c"));
        assert_eq!(since(0).0, ["c"; MAX_PASSED].join(" "));
    }
}
