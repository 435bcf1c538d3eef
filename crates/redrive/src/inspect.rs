//! Read-only views of a running system: live jobs, statistics, the audit log and the counters.

pub(crate) mod jobs;
pub(crate) mod stats;
pub(crate) mod queues;
pub(crate) mod audit;
pub(crate) mod counters;
