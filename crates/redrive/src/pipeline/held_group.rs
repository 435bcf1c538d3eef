//! Groups that a letter holds, and their release.

use std::time::SystemTime;

use postgres::Row;

use crate::db::admin::Admin;
use crate::db::sql;
use crate::error::{Error, Result};
use crate::job::job::JobId;
use crate::job::new_job::{MAX_GROUP_BYTES, check_key};
use crate::job::operator::Operator;
use crate::pipeline::queue::Queue;

/// A group whose jobs wait behind the letter of an earlier one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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

/// The held groups of a queue, in brief.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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

/// The greatest number of held groups, and of jobs behind them, that are counted per queue: 10,000.
pub const MAX_HELD_COUNT: u64 = 10_000;

impl Admin<'_> {
    /// Returns the queues with groups that a letter holds, the one with the oldest of them first.
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn held_groups_by_queue(&self) -> Result<Vec<HeldInQueue>> {
        self.db.call("list queues with held groups", |session| {
            let rows = session.query(
                "list queues with held groups",
                &sql::QUEUES_WITH_HELD_GROUPS,
                &[&i64::try_from(MAX_HELD_COUNT).unwrap_or(i64::MAX)],
            )?;
            Ok(rows
                .iter()
                .map(|row| HeldInQueue {
                    queue: row.get("queue"),
                    groups: row.get::<_, i64>("groups").unsigned_abs(),
                    waiting: row.get::<_, i64>("waiting").unsigned_abs(),
                    oldest_group: row.get("group_key"),
                    oldest_letter: JobId::new(row.get("letter_id")),
                    oldest_held_at: row.get("held_at"),
                })
                .collect())
        })
    }
}

impl Queue {
    /// Lets the jobs behind a letter continue without it, and returns the letter, which stays open, as do
    /// letters that were diverted behind it. Returns `None` if no letter holds the group.
    ///
    /// Redrive the letter instead if its job must run first.
    ///
    /// # Errors
    /// *Invalid* for a group that no job can have. Otherwise if the database does not answer.
    pub fn release_group(&self, group: &str, operator: &Operator) -> Result<Option<JobId>> {
        let (queue, operator) = (self.shared_name(), operator.clone());
        let doing = format!("release a group of queue `{queue}`");
        check_key("group", group, MAX_GROUP_BYTES)
            .map_err(|why| Error::invalid(format!("could not {doing}: {why}")))?;
        let group = group.to_owned();
        self.database().call("release a group", move |session| {
            let row = session.query_one(
                &doing,
                &sql::RELEASE_GROUP,
                &[&&*queue, &group, &operator.by(), &operator.given_reason()],
            )?;
            Ok(row.get::<_, Option<i64>>("letter").map(JobId::new))
        })
    }

    /// Returns the groups of the queue that a letter holds, those held for the longest time first, at
    /// most `limit`.
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn held_groups(&self, limit: u32) -> Result<Vec<HeldGroup>> {
        let queue = self.shared_name();
        self.database().call("list held groups", move |session| {
            let rows = session.query(
                &format!("list the held groups of queue `{queue}`"),
                &sql::HELD_GROUPS,
                &[&Some(&*queue), &i64::from(limit)],
            )?;
            Ok(rows.iter().map(HeldGroup::of_row).collect())
        })
    }
}

impl HeldGroup {
    pub(crate) fn of_row(row: &Row) -> HeldGroup {
        HeldGroup {
            queue: row.get("queue"),
            group: row.get("group_key"),
            letter: JobId::new(row.get("letter_id")),
            kind: row.get("kind"),
            error_class: row.get("error_class"),
            held_at: row.get("held_at"),
            waiting: row.get::<_, i64>("waiting").unsigned_abs(),
            diverted: row.get::<_, i64>("diverted").unsigned_abs(),
        }
    }
}
