//! The life of a job, one step per module, in order.

pub(crate) mod buckets;
pub(crate) mod insert;
pub(crate) mod coalesce;
pub(crate) mod queue;
pub(crate) mod copy;
pub(crate) mod enqueue;
pub(crate) mod promote;
pub(crate) mod claim;
pub(crate) mod breaker;
pub(crate) mod gates;
pub(crate) mod pause;
pub(crate) mod group_policy;
pub(crate) mod held_group;
pub(crate) mod rate_limit;
pub(crate) mod outcome;
pub(crate) mod attempt;
pub(crate) mod judge;
pub(crate) mod settlement;
pub(crate) mod done_jobs;
pub(crate) mod tallies;
pub(crate) mod settle;
pub(crate) mod tokens;
pub(crate) mod probe;
pub(crate) mod checkpoint;
pub(crate) mod follow_up;
pub(crate) mod reap;
