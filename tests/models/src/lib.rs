//! The worker of redrive under a scheduler that tries many orders of its threads.
//!
//! The library's own files are compiled here a second time. Two things differ: `sync` replaces
//! locks, channels, threads and time, and a `server` replaces PostgreSQL. It knows the statements
//! of a worker, executes each in one step, and can be slow, unreachable or silent.
//!
//! Time stands still while any thread can continue, and then jumps to the next moment that a
//! thread waits for. A scenario therefore sets how long everything takes, and events of the same
//! moment happen in every order.

// The library's unit tests and examples run in its own crate.
#![cfg(not(any(test, doctest)))]
#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    missing_docs,
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "the models use a small part of the library"
)]
#![allow(
    clippy::iter_not_returning_iterator,
    clippy::trivially_copy_pass_by_ref,
    clippy::module_inception,
    clippy::unnecessary_wraps,
    clippy::unused_self,
    clippy::wildcard_imports,
    reason = "replacements have the names and types of the originals"
)]

/// The files of the library.
#[path = "../../../crates/redrive/src"]
mod library {
    pub(crate) mod error;

    pub(crate) mod job {
        pub(crate) mod words;
        pub(crate) mod setters;
        pub(crate) mod id;
        pub(crate) mod name;
        pub(crate) mod caught;
        pub(crate) mod payload;
        pub(crate) mod death_cause;
        pub(crate) mod error_report;
        pub(crate) mod disposition;
        pub(crate) mod deciding_error;
        pub(crate) mod failure;
        pub(crate) mod backoff;
        pub(crate) mod milliseconds;
        pub(crate) mod headers;
        pub(crate) mod wait;
        pub(crate) mod new_job;
        pub(crate) mod follow_up;
        pub(crate) mod checkpoint;
        pub(crate) mod job;
        pub(crate) mod sample;
        pub(crate) mod operator;
    }

    pub(crate) mod db {
        pub(crate) mod sql;
        pub(crate) mod pooler;
        pub(crate) mod spawn;
        pub(crate) mod run;
        pub(crate) mod caller;
        pub(crate) mod column;
        pub(crate) mod row;
        pub(crate) mod ask;
        pub(crate) mod pool_share;
        pub(crate) mod admin;
        pub(crate) mod durability;

        pub(crate) use crate::{database, session};
    }

    pub(crate) mod pipeline {
        pub(crate) mod buckets;
        pub(crate) mod coalesce;
        pub(crate) mod queue;
        pub(crate) mod insert;
        pub(crate) mod promote;
        pub(crate) mod claim;
        pub(crate) mod breaker;
        pub(crate) mod gates;
        pub(crate) mod pause;
        pub(crate) mod rate_limit;
        pub(crate) mod outcome;
        pub(crate) mod attempt;
        pub(crate) mod judge;
        pub(crate) mod settlement;
        pub(crate) mod tallies;
        pub(crate) mod settle;
        pub(crate) mod tokens;
        pub(crate) mod probe;
        pub(crate) mod checkpoint;
        pub(crate) mod done_jobs;
        pub(crate) mod follow_up;
        pub(crate) mod reap;
    }

    pub(crate) mod worker;
}

pub(crate) use library::*;

pub(crate) use error::{Error, Result};
pub(crate) use job::backoff::Backoff;
pub(crate) use job::failure::Failure;
pub(crate) use job::job::{Job, JobId};
pub(crate) use job::new_job::NewJob;
pub(crate) use job::payload::{MAX_PAYLOAD_BYTES, Payload};
pub(crate) use pipeline::queue::Queue;
pub(crate) use worker::{HandlerOptions, Worker, WorkerBuilder};

mod database;
mod sync;
mod rows;
mod environment;
mod scenario;
pub mod scenarios;
mod server;
mod session;
mod statements;
mod stubs;

pub use scenario::run;
pub(crate) use stubs::{dlq, schedule};
