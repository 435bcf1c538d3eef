//! Groups that a letter holds, and their release.

use std::time::SystemTime;

use crate::db::admin::Admin;
use crate::db::row::row;
use crate::db::sql;
use crate::error::Result;
use crate::job::job::JobId;
use crate::job::operator::Operator;
use crate::pipeline::queue::Queue;

row! {
    /// A group whose jobs wait behind the letter of an earlier one.
    #[derive(PartialEq, Eq)]
    pub struct HeldGroup {
        /// The queue.
        pub queue: String,
        /// The group.
        pub group: String,
        /// The letter that holds it.
        pub letter: JobId,
        /// The kind of its job.
        pub kind: String,
        /// The class of its error.
        pub error_class: String,
        /// Since when it holds the group.
        pub held_at: SystemTime,
        /// The number of jobs that wait behind it.
        pub waiting: u64,
        /// The number of open letters that were [diverted](crate::GroupDeath::Divert) behind it.
        pub diverted: u64,
    }
}

row! {
    /// The held groups of a queue, in brief.
    #[derive(PartialEq, Eq)]
    pub struct HeldInQueue {
        /// The queue.
        pub queue: String,
        /// The number of groups that a letter holds, counted up to [`MAX_HELD_COUNT`].
        pub groups: u64,
        /// The number of jobs that wait behind these letters, counted up to [`MAX_HELD_COUNT`], in the 1,000
        /// groups that have been held for the longest time.
        pub waiting: u64,
        /// The group that has been held for the longest time.
        pub oldest_group: String,
        /// The letter that holds it.
        pub oldest_letter: JobId,
        /// Since when it holds the group.
        pub oldest_held_at: SystemTime,
    }
}

/// The greatest number of held groups, and of jobs behind them, that are counted per queue: 10,000.
pub const MAX_HELD_COUNT: u64 = 10_000;

impl Admin<'_> {
    /// Returns the queues with groups that a letter holds, the one with the oldest of them first.
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn held_groups_by_queue(&self) -> Result<Vec<HeldInQueue>> {
        self.db.ask().all(
            "list queues with held groups",
            &sql::QUEUES_WITH_HELD_GROUPS,
            &[&MAX_HELD_COUNT],
        )
    }
}

impl Queue {
    /// Lets the jobs behind a letter continue without it, and returns the letter, which stays open, as do
    /// letters that were diverted behind it. Returns `None` if no letter holds the group.
    ///
    /// Redrive the letter instead if its job must run first.
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn release_group(&self, group: &str, operator: &Operator) -> Result<Option<JobId>> {
        self.database().ask().one(
            &format!("release a group of queue `{}`", self.name()),
            &sql::RELEASE_GROUP,
            &[&self.name(), &group, operator],
        )
    }

    /// Returns the groups of the queue that a letter holds, those held for the longest time first, at
    /// most `limit`.
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn held_groups(&self, limit: u32) -> Result<Vec<HeldGroup>> {
        self.database().ask().all(
            &format!("list the held groups of queue `{}`", self.name()),
            &sql::HELD_GROUPS,
            &[&self.name(), &None::<i64>, &i64::from(limit)],
        )
    }
}
