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

mod event;
mod group;
mod history;
mod letter;

mod act;
mod filter;

mod audit;
mod capture;
mod discard;
mod live;
mod redrive;
mod stats;

pub use act::Act;
pub use audit::{Audit, AuditRecord};
pub use backoff::{Backoff, LONGEST_BACKOFF};
pub use capture::{Capture, Captured};
pub use database::{Database, DatabaseBuilder, connect};
pub use error::{Error, Result};
pub use event::LetterEvent;
pub use failure::Failure;
pub use filter::{Comparison, Letters};
pub use group::{FailureGroup, GroupId, GroupState, Groups};
pub use history::AttemptRecord;
pub use job::{Job, JobId, LONGEST_DELAY, MOST_ATTEMPTS, NewJob, PRIORITY_LIMIT};
pub use letter::{Letter, LetterCount, LetterState};
pub use live::{Cancelled, LiveJob, Place};
pub use name::NAME_CHARACTERS;
pub use payload::{PAYLOAD_BYTES, Payload};
pub use queue::Queue;
pub use reap::MAX_CRASHES;
pub use reason::Reason;
pub use redrive::Redriven;
pub use sql::statements;
pub use stats::{FailureCount, QueueStats};
pub use worker::{
    Counts, HandlerOptions, Stop, Stopped, WORKER_CONNECTIONS, Worker, WorkerBuilder,
};

pub use {postgres, r2d2, r2d2_postgres};
