//! The roles of client processes. Each uses redrive as any program would, and records which
//! operations it invoked and which answers it got.

pub(crate) mod batch;
mod enqueuer;
pub(crate) mod gateway;
pub(crate) mod groups;
pub(crate) mod keeping;
pub(crate) mod operator;
pub(crate) mod standing;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redrive::worker::WORKER_CONNECTIONS;
use redrive::{Database, Payload, Pooler};
use serde::{Deserialize, Serialize};

use crate::history::ClientLog;
use crate::processes::{ProcessDefaults, ProcessSpec};
use groups::OTHER_QUEUES;

/// The queue of all processes.
pub(crate) const QUEUE: &str = "chaos";
/// More lives than any process has: the number of a life counts from the number of its process times this.
pub(crate) const LIVES: u32 = 1000;
/// The delay after the first attempt. It grows by this with each attempt.
pub(crate) const BACKOFF_STEP: Duration = Duration::from_millis(150);
/// How long a job snoozes.
pub(crate) const SNOOZE: Duration = Duration::from_millis(200);
/// How long a unique key with a window is taken.
pub(crate) const WINDOW: Duration = Duration::from_secs(2);
/// `max_attempts` of every job.
pub(crate) const MAX_ATTEMPTS: u32 = 4;

/// The role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Role {
    Worker,
    Enqueuer,
    Operator,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

/// The state of the dependency that some handlers call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Gateway {
    /// Down for the first attempt at each job in a process.
    Shaky,
    Up,
}

/// Which jobs an enqueuer stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum JobMix {
    /// All plans, by all ways to enqueue.
    Mixed,
    /// The same, without jobs that abort their process.
    Tame,
    /// Jobs that succeed at once.
    Instant,
    /// Jobs of groups, without jobs that abort their process.
    Grouped,
}

/// The parameters of a process, which it gets as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Options {
    pub(crate) spec: ProcessSpec,
    pub(crate) run: ProcessDefaults,
    pub(crate) url: String,
    /// The name of the process, with the number of its life.
    pub(crate) name: String,
    /// A number that no other process or life has.
    pub(crate) number: u32,
}

impl Options {
    /// Opens the database under this process's name, which the trace records.
    fn open(&self) -> redrive::Result<Database> {
        let pooler = match self.run.is_pooled {
            true => Pooler::Transaction,
            false => Pooler::Session,
        };
        Database::builder(&self.named_url())
            .pooler(pooler)
            .connections(self.connections())
            .connect_timeout(Duration::from_secs(2))
            .call_timeout(Duration::from_secs(4))
            .open()
    }

    /// Returns how many connections the process needs.
    fn connections(&self) -> u32 {
        let workers = u32::try_from(self.queues().len()).unwrap_or(1);
        WORKER_CONNECTIONS * workers.max(2)
    }

    /// Returns the queues that a worker serves.
    fn queues(&self) -> Vec<&'static str> {
        let mut queues = vec![QUEUE];
        if self.spec.serves_others {
            queues.extend(OTHER_QUEUES);
        }
        queues
    }

    fn named_url(&self) -> String {
        format!("{}&application_name={}", self.url, self.name)
    }

    /// Opens the history of the process.
    fn log(&self) -> ClientLog {
        let path = self.run.folder.join(format!("client-{}.jsonl", self.name));
        ClientLog::open(&path, &self.name)
    }

    fn random(&self) -> fastrand::Rng {
        let mixed = self.name.bytes().fold(self.run.seed, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        fastrand::Rng::with_seed(mixed)
    }
}

/// Runs a process until SIGTERM.
pub(crate) fn run(options: &Options) {
    env_logger::Builder::new()
        .filter_level(log::LevelFilter::Warn)
        .format_target(false)
        .init();
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&stop))
        .expect("register a signal handler");
    match options.spec.role {
        Role::Worker => worker::run(options, &stop),
        Role::Enqueuer => enqueuer::run(options, &stop),
        Role::Operator => operator::run(options, &stop),
    }
}

/// Tries something until it succeeds. Returns `None` when asked to stop.
fn insist<T>(stop: &AtomicBool, mut attempt: impl FnMut() -> redrive::Result<T>) -> Option<T> {
    while !stop.load(Ordering::Relaxed) {
        match attempt() {
            Ok(done) => return Some(done),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
    None
}

/// The payload of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Work {
    /// Identifies the job in its enqueuer's history.
    pub(crate) key: i64,
    pub(crate) plan: Plan,
    /// How long the handler runs, in milliseconds.
    pub(crate) ms: u64,
    /// How often it fails before it succeeds.
    pub(crate) times: u32,
    /// How many checkpoints each attempt writes.
    pub(crate) steps: u32,
    /// How many follow-ups its success stores: none or one.
    pub(crate) follow_ups: u32,
}

/// Generations whose follow-ups have different keys.
const GENERATIONS: i64 = 8;

impl Work {
    /// Returns work that succeeds at once.
    pub(crate) fn instant(key: i64) -> Work {
        Work {
            key,
            plan: Plan::Done,
            ms: 0,
            times: 0,
            steps: 0,
            follow_ups: 0,
        }
    }

    /// Returns the error of a failed attempt.
    pub(crate) fn error(&self) -> String {
        format!("cannot process {}", self.key)
    }

    /// Returns the follow-up of this job's success in a generation.
    pub(crate) fn follow_up(&self, generation: i32) -> Work {
        Work::instant(follow_up_key(self.key, generation))
    }
}

/// Returns the key of the follow-up of a job's success. It is negative, unlike those of enqueuers.
pub(crate) fn follow_up_key(key: i64, generation: i32) -> i64 {
    -(key * GENERATIONS + i64::from(generation) % GENERATIONS)
}

/// How a handler ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Plan {
    Done,
    Retry,
    Panic,
    Reject,
    Snooze,
    Outage,
    /// Aborts its process, in generation 0.
    Abort,
    /// Waits at the [gate](crate::gate), then succeeds.
    Hold,
    /// Fails the first attempt; the next one waits at the gate.
    RetryThenHold,
    /// The first attempt waits at the gate and fails.
    HoldThenRetry,
    /// Fails for good, in every generation.
    RejectAlways,
}

impl Payload for Work {
    const KIND: &'static str = "work";
}

/// The same work for other handlers.
macro_rules! works {
    ($($(#[$doc:meta])* $name:ident $kind:literal,)+) => {
        $($(#[$doc])*
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[serde(transparent)]
        pub(crate) struct $name(pub(crate) Work);

        impl Payload for $name {
            const KIND: &'static str = $kind;
        })+
    };
}

works! {
    /// Work for a handler with a transaction.
    TransactionalWork "transactional",
    /// Work that calls the gateway.
    DependentWork "dependent",
    /// Work for the handler of batches.
    BatchWork "batch",
}
