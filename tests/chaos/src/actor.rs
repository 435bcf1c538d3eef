//! The actors: programs that use redrive as anybody would, and write down what they asked for and
//! what they were told.

mod enqueuer;
mod exporter;
mod operator;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, ValueEnum};
use redrive::{Database, Payload, Pooler};
use serde::{Deserialize, Serialize};

use crate::record::Log;

/// The queue of all actors.
pub(crate) const QUEUE: &str = "chaos";
/// How long a worker that is gone keeps its jobs.
pub(crate) const LEASE: Duration = Duration::from_secs(3);
/// Most attempts of a job.
pub(crate) const ATTEMPTS: u32 = 4;

/// What kind of actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    Worker,
    Enqueuer,
    Operator,
    Exporter,
}

/// How an actor misbehaves, to see that it is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Flaw {
    None,
    /// It says that its jobs are stored before the transaction has committed.
    AcksEarly,
    /// It asks again, under the same names, when the answer was lost.
    AsksAgain,
}

/// How what some handlers need is, the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Gateway {
    /// Down at one time in three.
    Shaky,
    Up,
}

/// What jobs an enqueuer makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Diet {
    /// Some of everything.
    Mixed,
    /// Some of everything but what kills a process.
    Tame,
    /// Jobs that are done at once.
    Easy,
    /// Jobs that take longer than a lease.
    Long,
    /// Jobs that take a moment.
    Slow,
    /// Jobs that are rejected at first.
    Rejected,
    /// Jobs that kill the process that runs them, now and then.
    Deadly,
    /// Transactions that stay open for a moment, one job each.
    Open,
    /// Jobs with unique keys, few of them.
    Unique,
}

/// The command line of an actor.
#[derive(Debug, Args)]
pub(crate) struct Options {
    pub(crate) role: Role,
    #[arg(long)]
    pub(crate) url: String,
    /// What it leads through.
    #[arg(long, default_value_t)]
    pub(crate) pooler: Pooler,
    /// Its name and which life of it.
    #[arg(long)]
    pub(crate) name: String,
    /// A number of its own.
    #[arg(long)]
    pub(crate) number: u32,
    /// Where the records are.
    #[arg(long)]
    pub(crate) folder: PathBuf,
    #[arg(long)]
    pub(crate) seed: u64,
    /// Jobs a second of an enqueuer, 0: as fast as it goes; redrives a second of an operator that does nothing
    /// else.
    #[arg(long, default_value_t = 100)]
    pub(crate) rate: u32,
    /// Jobs of an enqueuer in its life; 0: no limit.
    #[arg(long, default_value_t = 0)]
    pub(crate) jobs: u64,
    #[arg(long, value_enum, default_value_t = Diet::Mixed)]
    pub(crate) diet: Diet,
    #[arg(long, value_enum, default_value_t = Flaw::None)]
    pub(crate) flaw: Flaw,
    /// What handlers of a worker find.
    #[arg(long, value_enum, default_value_t = Gateway::Shaky)]
    pub(crate) gateway: Gateway,
    /// The port of an exporter.
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// How long a worker waits for its handlers when it is told to end, in milliseconds.
    #[arg(long, default_value_t = 1500)]
    pub(crate) grace: u64,
}

impl Options {
    /// Opens the database as this actor: the trail knows it by its name.
    fn open(&self) -> redrive::Result<Database> {
        Database::builder(&self.address())
            .pooler(self.pooler)
            .connect_timeout(Duration::from_secs(2))
            .call_timeout(Duration::from_secs(4))
            .open()
    }

    fn address(&self) -> String {
        format!("{}&application_name={}", self.url, self.name)
    }

    fn log(&self) -> Log {
        Log::open(
            &self.folder.join(format!("client-{}.jsonl", self.name)),
            &self.name,
        )
    }

    fn dice(&self) -> fastrand::Rng {
        let mixed = self.name.bytes().fold(self.seed, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        fastrand::Rng::with_seed(mixed)
    }
}

/// Lives the life of an actor.
pub(crate) fn run(options: &Options) {
    if options.role == Role::Exporter {
        return exporter::run(options);
    }
    env_logger::Builder::new()
        .filter_level(log_level())
        .format_target(false)
        .init();
    let over = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&over))
        .expect("listen to SIGTERM");
    match options.role {
        Role::Worker => worker::run(options, &over),
        Role::Enqueuer => enqueuer::run(options, &over),
        Role::Operator => operator::run(options, &over),
        Role::Exporter => {}
    }
}

fn log_level() -> log::LevelFilter {
    log::LevelFilter::Warn
}

/// Opens the database, however long it is away; `None` when the actor is told to end.
fn opened(options: &Options, over: &AtomicBool) -> Option<Database> {
    while !over.load(Ordering::Relaxed) {
        match options.open() {
            Ok(db) => return Some(db),
            Err(_) => std::thread::sleep(Duration::from_millis(200)),
        }
    }
    None
}

/// What a job does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Work {
    /// What its enqueuer calls it.
    pub(crate) key: i64,
    pub(crate) plan: Plan,
    /// How long it takes, in milliseconds.
    pub(crate) ms: u64,
    /// How often it does what it does before it is done.
    pub(crate) times: u32,
}

/// What comes of running a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Plan {
    Done,
    Retry,
    Panic,
    Reject,
    Snooze,
    Outage,
    /// It kills its process, in its first generation.
    Abort,
}

impl Payload for Work {
    const KIND: &'static str = "work";
}

/// The same, in the transaction of its handler.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct OwnWork(pub(crate) Work);

impl Payload for OwnWork {
    const KIND: &'static str = "own";
}
