//! The queues beside the main one: one for each policy of groups, one with a rate limit, and one whose groups have
//! rate limits.

use std::time::Duration;

use redrive::{Database, GroupDeath, GroupPolicy, Operator, Queue, RateLimit, RateLimited, Result};

/// One job of a group at a time, whether or not jobs die.
pub(crate) const ORDERED: &str = "ordered";
/// The letter of a dead job holds its group.
pub(crate) const HELD: &str = "held";
/// The jobs behind a letter become letters.
pub(crate) const DIVERTED: &str = "diverted";
/// A few jobs of a group at a time.
pub(crate) const LIMITED: &str = "limited";
/// Groups take turns.
pub(crate) const FAIR: &str = "fair";

/// No groups, but a rate limit.
pub(crate) const RATED: &str = "rated";

/// No policy, but a rate limit of each group.
pub(crate) const PACED: &str = "paced";

/// The queues in which a letter may hold a group.
pub(crate) const HOLDING_QUEUES: [&str; 2] = [HELD, DIVERTED];
/// One of this many jobs may start per second, a few more than are enqueued.
const SHARE: u32 = 5;
const MIN_STARTS: u32 = 4;
/// The same for each group of [`PACED`]: twice as many as are enqueued for its busy group.
const GROUP_SHARE: u32 = 7;
const MIN_GROUP_STARTS: u32 = 3;
/// How many jobs of a group in [`LIMITED`] may run at a time.
pub(crate) const LIMIT: u32 = 2;

/// The queues beside the main one.
pub(crate) const OTHER_QUEUES: [&str; 7] = [ORDERED, HELD, DIVERTED, LIMITED, FAIR, RATED, PACED];

/// Returns what the groups of a queue mean. `None`: nothing.
pub(crate) fn policy_of(queue: &str) -> Option<GroupPolicy> {
    match queue {
        ORDERED => Some(GroupPolicy::Ordered(GroupDeath::Continue)),
        HELD => Some(GroupPolicy::Ordered(GroupDeath::Hold)),
        DIVERTED => Some(GroupPolicy::Ordered(GroupDeath::Divert)),
        LIMITED => Some(GroupPolicy::Limit(LIMIT)),
        FAIR => Some(GroupPolicy::Fair),
        _ => None,
    }
}

/// Sets the policies. Jobs that became ready before have no turn, so this comes before all jobs.
pub(crate) fn set_policies(db: &Database, operator: &Operator) -> Result<()> {
    for name in OTHER_QUEUES {
        if let Some(policy) = policy_of(name) {
            Queue::new(db, name)?.set_group_policy(policy, operator)?;
        }
    }
    Ok(())
}

/// Sets the rate limits, for enqueuers that store this many jobs per second.
pub(crate) fn set_rate_limits(db: &Database, jobs: u32, operator: &Operator) -> Result<()> {
    const SECOND: Duration = Duration::from_secs(1);
    let starts = (jobs / SHARE).max(MIN_STARTS);
    let limit = RateLimit::per(starts, SECOND).burst(starts * 2);
    Queue::new(db, RATED)?.limit_rate(RateLimited::Queue, limit, operator)?;
    let starts = (jobs / GROUP_SHARE).max(MIN_GROUP_STARTS);
    let limit = RateLimit::per(starts, SECOND).burst(starts);
    Queue::new(db, PACED)?.limit_rate(RateLimited::EachGroup, limit, operator)
}
