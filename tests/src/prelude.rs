//! What most tests use, imported as a whole.

pub use std::collections::{BTreeMap, BTreeSet};
pub use std::ops::ControlFlow;
pub use std::process::{Command, ExitCode, ExitStatus, Output, Stdio};
pub use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub use std::sync::{Arc, Barrier, Mutex, mpsc};
pub use std::time::{Duration, Instant, SystemTime};
pub use std::{fs, thread};

pub use log::LevelFilter;
pub use postgres::error::SqlState;
pub use postgres::types::ToSql;
pub use postgres::{Client, GenericClient, NoTls, Transaction};
pub use redrive::admin::*;
pub use redrive::dlq::runs::*;
pub use redrive::dlq::*;
pub use redrive::schedule::*;
pub use redrive::{
    Backoff, Batch, BatchOptions, ConnectOptions, Database, DatabaseBuilder, Enqueued, Failure,
    GroupDeath, GroupPolicy, HandlerOptions, Handlers, Job, JobId, NewJob, Operator, PauseEnd,
    Payload, Queue, RateLimit, RateLimited, Replace, Worker, WorkerBuilder,
};
pub use redrive_cli::Program;
pub use serde::{Deserialize, Serialize};
pub use serde_json::{Value, json};
pub use uuid::Uuid;

pub use crate::*;
