//! The groups in which a job of this process has just ended, so that the next claim looks at them.

use std::sync::Arc;

use crate::sync::Mutex;
use crate::worker::latch::lock;

/// How many groups to remember. The walk over all groups finds the others.
const MAX_PASSED: usize = 500;

/// The groups whose turn has just passed on.
#[derive(Default)]
pub(crate) struct PassedGroups {
    groups: Mutex<Vec<Arc<str>>>,
}

impl PassedGroups {
    /// Records groups.
    pub(crate) fn note(&self, groups: impl IntoIterator<Item = Arc<str>>) {
        let mut passed = lock(&self.groups);
        for group in groups {
            // The jobs of a turn end one after the other.
            if passed.last() != Some(&group) && passed.len() < MAX_PASSED {
                passed.push(group);
            }
        }
    }

    /// Removes and returns the groups.
    pub(crate) fn take(&self) -> Vec<Arc<str>> {
        std::mem::take(&mut *lock(&self.groups))
    }
}
