//! Live jobs, statistics, the audit log and the counters of a running system.

pub(crate) mod handle;
pub(crate) mod jobs;
pub(crate) mod bulk;
pub(crate) mod edit;
pub(crate) mod stats;
pub(crate) mod queues;
pub(crate) mod audit;
pub(crate) mod counters;
pub(crate) mod repair;
