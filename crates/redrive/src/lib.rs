#![doc = include_str!("../README.md")]
//!
//! # Reading order
//!
//! The modules follow the life of a job:
//! enqueue → claim → run → judge → settle → done | retry | dead → redrive.

mod backoff;
mod error;
mod failure;
mod job;
mod name;
mod payload;
mod reason;

mod database;
mod lane;
pub mod migrate;
mod session;
mod sql;

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

mod group;
mod letter;

mod act;
mod filter;

mod archive;
mod capture;
mod discard;
mod live;
mod policy;
mod redaction;
mod redrive;
mod retention;
mod stats;

pub use act::Act;
pub use archive::ArchivedLetter;
pub use backoff::{Backoff, LONGEST_BACKOFF};
pub use capture::{Capture, Captured};
pub use database::{Database, DatabaseBuilder, connect};
pub use error::{Error, Result};
pub use failure::Failure;
pub use filter::Letters;
pub use group::GroupId;
pub use job::{Job, JobId, LONGEST_DELAY, MOST_ATTEMPTS, NewJob, PRIORITY_LIMIT};
pub use letter::{AttemptRecord, Letter, LetterCount, LetterState};
pub use live::{Cancelled, LiveJob, Place};
pub use name::NAME_CHARACTERS;
pub use payload::{PAYLOAD_BYTES, Payload};
pub use policy::{Hours, LARGEST_POLICY_BATCH, Policy, PolicyBreaker, PolicyMode, PolicyStatus};
pub use queue::Queue;
pub use reap::MAX_CRASHES;
pub use reason::Reason;
pub use redaction::{Redaction, RedactionId};
pub use redrive::Redriven;
pub use retention::{Retention, RetentionAction, RetentionDue};
pub use sql::statements;
pub use stats::{FailureCount, QueueStats};
pub use worker::{
    Counts, HandlerOptions, Stop, Stopped, WORKER_CONNECTIONS, Worker, WorkerBuilder,
};

pub use {postgres, r2d2, r2d2_postgres};
