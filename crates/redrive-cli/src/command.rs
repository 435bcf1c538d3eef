//! The commands, one file each.

pub(crate) mod audit;
pub(crate) mod breaker;
pub(crate) mod dlq;
pub(crate) mod enqueue;
pub(crate) mod job;
pub(crate) mod migrate;
pub(crate) mod prune;
pub(crate) mod redact;
pub(crate) mod stats;
pub(crate) mod work;
