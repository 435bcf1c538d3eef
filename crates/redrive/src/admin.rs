//! Live jobs, statistics, breakers and the audit log, for operators and their tools.
//!
//! Start at [`Database::admin`](crate::Database::admin).

mod jobs;
mod bulk;
mod edit;
mod stats;
mod queues;
mod audit;
mod counters;
mod repair;

pub use audit::{AuditFilter, AuditRecord};
pub use bulk::{JobChange, JobCount};
pub use counters::{CountedSet, CounterAudit};
pub use jobs::{Cancelled, Jobs, LiveJob};
pub use queues::KnownQueues;
pub use repair::Fault;
pub use stats::{KindStats, QueueStats};

pub use crate::db::admin::Admin;
pub use crate::dlq::filter::JobFilter;
pub use crate::job::job_state::JobState;
pub use crate::pipeline::breaker::{Breaker, BreakerCause, BreakerState};
pub use crate::pipeline::held_group::{HeldInQueue, MAX_HELD_COUNT};
pub use crate::pipeline::pause::QueuePause;
pub use crate::pipeline::rate_limit::ListedRateLimit;
