//! Commands that set up and maintain the database: migrate, queue, breaker, prune, redact, erase,
//! audit and repair.

mod findings;
mod migrate;
mod rate_limit;
mod group;
mod queue;
mod breaker;
mod prune;
mod redact;
mod erase;
mod audit;
mod repair;

pub(crate) use audit::AuditCommand;
pub(crate) use breaker::BreakerCommand;
pub(crate) use erase::Erase;
pub(crate) use migrate::Migrate;
pub(crate) use prune::Prune;
pub(crate) use queue::QueueCommand;
pub(crate) use redact::RedactCommand;
pub(crate) use repair::Repair;
