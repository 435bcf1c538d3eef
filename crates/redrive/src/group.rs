//! Failure groups: letters that died of the same thing.

use std::fmt;

/// The id of a failure group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(i64);

impl GroupId {
    /// The group with this number.
    pub fn new(id: i64) -> GroupId {
        GroupId(id)
    }

    /// Its number.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
