//! The policy of a queue for the groups of its jobs.

use crate::db::sql;
use crate::error::Result;
use crate::job::operator::Operator;
use crate::job::words::words;
use crate::pipeline::queue::Queue;

/// The greatest limit of running jobs per group: 1,000.
pub const MAX_GROUP_LIMIT: u32 = 1000;

/// The meaning of the [groups](crate::NewJob::group) of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupPolicy {
    /// Nothing: the group of a job is metadata. The default.
    None,
    /// The jobs of a group run one at a time, in the order of their ids. While one waits for a retry, the
    /// group waits.
    Ordered(GroupDeath),
    /// At most this many jobs of a group run at the same time, in all processes, 1 to 1,000. A job that
    /// waits for a retry does not count.
    Limit(u32),
    /// The groups take turns, without a limit.
    Fair,
}

words! {
    /// What happens to an ordered group when one of its jobs dies.
    #[derive(Default)]
    pub enum GroupDeath is "effect of a death" {
        /// The next job runs. The default.
        #[default]
        Continue = "continue",
        /// The group waits until the letter is redriven, discarded, delivered or deleted, or the group is
        /// [released](Queue::release_group). A redriven job runs before the jobs that wait.
        Hold = "hold",
        /// As [`Hold`](GroupDeath::Hold), but the jobs behind the letter become letters of the cause
        /// [`Diverted`](crate::dlq::DeathCause::Diverted), without charging an attempt. A redrive of all of them
        /// runs them in order. While one of them is open, jobs behind it are diverted too.
        Divert = "divert",
    }
}

impl GroupPolicy {
    /// Returns the mode, the limit and the effect of a death, as the database has them.
    pub fn parts(self) -> (&'static str, Option<u32>, GroupDeath) {
        match self {
            GroupPolicy::None => ("none", None, GroupDeath::Continue),
            GroupPolicy::Ordered(death) => ("ordered", None, death),
            GroupPolicy::Limit(jobs) => ("limit", Some(jobs), GroupDeath::Continue),
            GroupPolicy::Fair => ("fair", None, GroupDeath::Continue),
        }
    }

    fn read(mode: &str, limit: u32, on_death: GroupDeath) -> GroupPolicy {
        match mode {
            "ordered" => GroupPolicy::Ordered(on_death),
            "limit" => GroupPolicy::Limit(limit),
            "fair" => GroupPolicy::Fair,
            _ => GroupPolicy::None,
        }
    }
}

impl Queue {
    /// Sets what the groups of the queue mean, in every process.
    ///
    /// The policy applies to jobs that become ready from now on. Jobs that wait for their group are
    /// claimed under the new policy, with [`None`](GroupPolicy::None) as with
    /// [`Fair`](GroupPolicy::Fair). Running jobs keep their turn until they end. Groups that a letter
    /// holds continue, unless the new policy holds or diverts them too. Workers learn of the policy by notification;
    /// behind a pooler in transaction mode, within a third of their lease, at most 10 seconds.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redrive::{GroupDeath, GroupPolicy, NewJob, Operator, Queue};
    /// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
    /// # db.migrate()?;
    /// let orders = Queue::new(&db, "grouped-orders")?;
    /// let operator = Operator::new("maria@ops-1").reason("one step of an order after the other");
    /// orders.set_group_policy(GroupPolicy::Ordered(GroupDeath::Hold), &operator)?;
    /// orders.enqueue_job(NewJob::raw("charge", "{}")?.group("order:42"))?;
    /// orders.enqueue_job(NewJob::raw("ship", "{}")?.group("order:42"))?;
    /// assert_eq!(orders.group_policy()?, GroupPolicy::Ordered(GroupDeath::Hold));
    /// # Ok(()) }
    /// ```
    ///
    /// Call it when the program starts: a policy that is the same changes nothing and writes no audit.
    ///
    /// # Errors
    /// *Invalid* for a limit outside 1 to 1,000. Otherwise if the database does not answer.
    pub fn set_group_policy(&self, policy: GroupPolicy, operator: &Operator) -> Result<()> {
        let (mode, limit, on_death) = policy.parts();
        self.database().ask().one(
            &format!("set the group policy of queue `{}`", self.name()),
            &sql::SET_GROUP_POLICY,
            &[&self.name(), &mode, &limit, &on_death.as_str(), operator],
        )
    }

    /// Returns what the groups of the queue mean.
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn group_policy(&self) -> Result<GroupPolicy> {
        let doing = format!("read the group policy of queue `{}`", self.name());
        let ask = self.database().ask();
        let set: Option<(String, u32, GroupDeath)> =
            ask.all(&doing, &sql::GROUP_POLICY, &[&self.name()])?.pop();
        Ok(set.map_or(GroupPolicy::None, |(mode, limit, on_death)| {
            GroupPolicy::read(&mode, limit, on_death)
        }))
    }
}
