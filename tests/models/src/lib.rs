//! The worker of redrive under a scheduler that tries many orders of its threads.
//!
//! What runs here is the library itself: its files, from `crates/redrive/src`, compiled a second
//! time. Other than there are what they stand on, the `floor`, and what is behind the sessions:
//! a `server` that knows the statements of a worker, each in one step, and that can be
//! told to be away or to say nothing.
//!
//! Time stands still while any thread can go on, and then jumps to the next moment that one waits
//! for. So what takes time takes just as much as a scene says, and what happens at one moment
//! happens in every order.

// The tests of the library's files are elsewhere, on the usual floor.
#![cfg(not(test))]
#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    missing_docs,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "most of the library is not used here, and its documentation is elsewhere"
)]
#![allow(
    clippy::iter_not_returning_iterator,
    clippy::unnecessary_wraps,
    clippy::unused_self,
    clippy::wildcard_imports,
    reason = "what stands in for something has its names and its types"
)]

/// The files of the library.
#[path = "../../../crates/redrive/src"]
mod library {
    pub(crate) mod act;
    pub(crate) mod backoff;
    pub(crate) mod breaker;
    pub(crate) mod cause;
    pub(crate) mod claim;
    pub(crate) mod durability;
    pub(crate) mod error;
    pub(crate) mod failure;
    pub(crate) mod job;
    pub(crate) mod judge;
    pub(crate) mod lane;
    pub(crate) mod name;
    pub(crate) mod payload;
    pub(crate) mod pooler;
    pub(crate) mod promote;
    pub(crate) mod queue;
    pub(crate) mod reap;
    pub(crate) mod reason;
    pub(crate) mod refusal;
    pub(crate) mod run;
    pub(crate) mod settle;
    pub(crate) mod sql;
    pub(crate) mod stuck;
    pub(crate) mod worker;
}

pub(crate) use library::*;

pub(crate) use backoff::Backoff;
pub(crate) use error::{Error, Result};
pub(crate) use failure::Failure;
pub(crate) use job::{Job, JobId, NewJob};
pub(crate) use payload::{PAYLOAD_BYTES, Payload};
pub(crate) use queue::Queue;
pub(crate) use worker::{HandlerOptions, Worker, WorkerBuilder};

mod database;
mod elsewhere;
mod floor;
mod rows;
mod scene;
pub mod scenes;
mod server;
mod session;
mod statements;
mod tripped;

pub(crate) use elsewhere::{metrics, policy, redrive, retention};
