#![doc = include_str!("../README.md")]
//!
//! # Reading order
//!
//! The modules follow the life of a job:
//! enqueue → claim → run → judge → settle → done | retry | dead → redrive.

mod backoff;
mod error;
mod failure;
mod floor;
mod job;
mod name;
mod payload;
mod reason;
mod refusal;

mod address;
mod database;
mod dial;
mod durability;
mod lane;
pub mod migrate;
mod pool;
mod pooler;
mod session;
mod sql;
mod stuck;
mod tls;

mod breaker;
mod cause;
mod claim;
mod copy;
mod enqueue;
mod judge;
mod promote;
mod queue;
mod reap;
mod run;
mod settle;
mod worker;

mod event;
mod group;
mod history;
mod letter;

mod act;
mod filter;

mod archive;
mod audit;
mod capture;
mod captures;
mod complaint;
mod counters;
mod discard;
mod edit;
#[cfg(test)]
mod inputs;
mod live;
pub mod metrics;
mod number;
mod policy;
#[doc(hidden)]
pub mod pure;
mod redaction;
mod redrive;
mod registry;
mod retention;
mod sink;
mod stats;
mod validate;
mod version;
mod walk;

pub use act::Act;
pub use address::Address;
pub use archive::ArchivedLetter;
pub use audit::{Audit, AuditRecord};
pub use backoff::{Backoff, LONGEST_BACKOFF};
pub use breaker::{Breaker, BreakerCause, BreakerState};
pub use capture::{Capture, Captured};
pub use captures::MOST_CAPTURED_BYTES;
pub use complaint::Complaint;
pub use counters::{CountedSet, CounterAudit};
pub use database::{Database, DatabaseBuilder, connect};
pub use durability::Lapse;
pub use edit::{Edit, EditPreview, Edited, Previewed};
pub use enqueue::Unique;
pub use error::{Error, Result};
pub use event::LetterEvent;
pub use failure::Failure;
pub use filter::{Comparison, Letters};
pub use group::{FailureGroup, GroupId, GroupState, Groups};
pub use history::AttemptRecord;
pub use job::{Job, JobId, KEY_BYTES, LONGEST_DELAY, MOST_ATTEMPTS, NewJob, PRIORITY_LIMIT};
pub use letter::{Letter, LetterCount, LetterState};
pub use live::{Cancelled, LiveJob, Place};
pub use name::NAME_CHARACTERS;
pub use payload::{PAYLOAD_BYTES, Payload};
pub use policy::{Hours, LARGEST_POLICY_BATCH, Policy, PolicyBreaker, PolicyMode, PolicyStatus};
pub use pooler::Pooler;
pub use queue::Queue;
pub use reap::MAX_CRASHES;
pub use reason::Reason;
pub use redaction::{Redaction, RedactionId};
pub use redrive::{
    CreatedRun, Driven, Preview, PreviewGroup, Rate, RedriveOptions, RedriveRun, Redriven,
    RunChange, RunDriver, RunId, RunOptions, RunState, Skip, Step, Unserved,
};
pub use registry::Handlers;
pub use retention::{Retention, RetentionAction, RetentionDue};
pub use sink::{Deliveries, Sink, Undelivered};
#[doc(hidden)]
pub use sql::signatures;
pub use sql::statements;
pub use stats::{FailureCount, QueueStats};
pub use validate::{Validation, Validators};
pub use version::Version;
pub use worker::{
    Counts, HandlerOptions, Recovery, Stop, Stopped, WORKER_CONNECTIONS, Worker, WorkerBuilder,
};

pub use {postgres, r2d2, r2d2_postgres};
