//! Commands that set up and maintain the database: migrate, breaker, prune, redact and audit.

mod migrate;
mod breaker;
mod prune;
mod redact;
mod audit;

pub(crate) use audit::AuditCommand;
pub(crate) use breaker::BreakerCommand;
pub(crate) use migrate::Migrate;
pub(crate) use prune::Prune;
pub(crate) use redact::RedactCommand;
