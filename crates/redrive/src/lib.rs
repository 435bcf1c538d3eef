#![doc = include_str!("lib.md")]

mod sync;
mod error;
mod job;
mod db;
mod pipeline;
pub mod dlq;
pub mod schedule;
pub mod admin;
pub mod worker;
pub mod metrics;
pub mod testing;

pub mod _guide;

#[cfg(test)]
mod proptests;

pub use db::database::{BatchProgress, Database, DatabaseBuilder, connect};
pub use db::migrate;
pub use db::pooler::Pooler;
#[doc(hidden)]
pub use db::sql::statements;
pub use db::url::ConnectOptions;
#[doc(hidden)]
pub use dlq::filter::{filter_keys, parse_moment};
pub use error::{Error, Result};
pub use job::backoff::Backoff;
pub use job::deciding_error::{JobCancelled, Outage, Rejection};
#[doc(hidden)]
pub use job::duration::{format_duration, parse_duration};
pub use job::failure::Failure;
pub use job::job::{Job, JobId};
pub use job::new_job::{NewJob, Replace};
pub use job::operator::Operator;
pub use job::payload::Payload;
pub use pipeline::group_policy::{GroupDeath, GroupPolicy};
pub use pipeline::held_group::HeldGroup;
pub use pipeline::insert::Enqueued;
pub use pipeline::pause::PauseEnd;
pub use pipeline::queue::Queue;
pub use pipeline::rate_limit::{RateLimit, RateLimited};
#[cfg(feature = "derive")]
pub use redrive_derive::Payload;
pub use worker::registry::{Handlers, StatefulHandlers};
pub use worker::{
    Batch, BatchJob, BatchOptions, HandlerOptions, JobHandler, Undecodable, Worker, WorkerBuilder,
    Workers, WorkersBuilder,
};

#[cfg(feature = "prometheus")]
pub use prometheus;
pub use {postgres, r2d2, r2d2_postgres, serde_json, uuid};

/// The limits that the library enforces.
pub mod limits {
    pub use crate::dlq::capture::MAX_CAPTURE_BYTES;
    pub use crate::job::backoff::MAX_BACKOFF;
    pub use crate::job::follow_up::{MAX_FOLLOW_UP_BYTES, MAX_FOLLOW_UPS};
    pub use crate::job::name::{MAX_KIND_CHARS, MAX_NAME_CHARS};
    pub use crate::job::new_job::{
        MAX_ATTEMPTS, MAX_DELAY, MAX_GROUP_BYTES, MAX_PRIORITY, MAX_UNIQUE_KEY_BYTES,
    };
    pub use crate::job::payload::MAX_PAYLOAD_BYTES;
    pub use crate::pipeline::claim::MAX_CRASHES;
    pub use crate::pipeline::group_policy::MAX_GROUP_LIMIT;
    pub use crate::worker::WORKER_CONNECTIONS;
}
