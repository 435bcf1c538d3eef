//! The simulated server: the tables of a queue, statements that execute in one step, and outages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use crate::error::{Error, Result};
use crate::rows::Row;
use crate::scenario::random_time;
use crate::session::Parameter;
use crate::statements;
use crate::sync::Instant;
use crate::sync::clock;

/// The queue of all jobs.
pub(crate) const QUEUE: &str = "q";

/// A job.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) id: i64,
    pub(crate) attempt: i32,
    pub(crate) crashes: i16,
}

/// A lease with its jobs.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) worker: Uuid,
    pub(crate) claimed_at: Instant,
    pub(crate) jobs: Vec<Stored>,
    pub(crate) done: BTreeSet<i64>,
}

/// The row of a worker.
#[derive(Clone, Debug)]
pub(crate) struct WorkerRow {
    pub(crate) started_at: Instant,
    pub(crate) expires_at: Instant,
    pub(crate) waiting: bool,
}

impl WorkerRow {
    /// Whether it is alive and asked for notifications.
    pub(crate) fn is_notified(&self) -> bool {
        self.waiting && self.expires_at > Instant::now()
    }
}

/// The tables of the server.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) enqueued: BTreeSet<i64>,
    pub(crate) ready: BTreeMap<i64, Stored>,
    pub(crate) delayed: BTreeMap<i64, (Instant, Stored)>,
    pub(crate) leases: BTreeMap<Uuid, Lease>,
    pub(crate) workers: BTreeMap<Uuid, WorkerRow>,
    pub(crate) done: BTreeSet<i64>,
    pub(crate) dead: BTreeSet<i64>,
    /// The number of notifications of jobs so far.
    pub(crate) notified: u64,
    /// The statements that took effect, printed with a failure.
    pub(crate) log: Vec<String>,
}

impl Tables {
    pub(crate) fn note(&mut self, what: impl FnOnce() -> String) {
        let at = Instant::now();
        self.log.push(format!("{at:?} {}", what()));
    }

    /// Counts the places of each job.
    pub(crate) fn job_places(&self) -> BTreeMap<i64, usize> {
        let leased = self.leases.values().flat_map(|lease| {
            let undone = |job: &&Stored| !lease.done.contains(&job.id);
            lease.jobs.iter().filter(undone).map(|job| job.id)
        });
        let mut jobs = BTreeMap::new();
        let live = self.ready.keys().chain(self.delayed.keys());
        let ended = self.done.iter().chain(&self.dead);
        for id in leased.chain(live.chain(ended).copied()) {
            *jobs.entry(id).or_default() += 1;
        }
        jobs
    }
}

/// How the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// At once.
    Healthy,
    /// After up to 1.4 seconds.
    Slow,
    /// It rejects every call.
    Unreachable,
    /// Never. A statement takes effect, or not, when the server is healthy again.
    Silent,
    /// Never, but statements take effect at once.
    Mute,
}

pub(crate) struct Server {
    tables: Mutex<Tables>,
    health: Mutex<Health>,
    /// The maximum duration of a statement.
    max_duration: Duration,
}

impl Server {
    pub(crate) fn new(max_duration: Duration) -> Server {
        Server {
            tables: Mutex::default(),
            health: Mutex::new(Health::Healthy),
            max_duration,
        }
    }

    /// Never blocks, because all threads of a schedule share one system thread.
    pub(crate) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn health(&self) -> Health {
        *self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_health(&self, health: Health) {
        clock::change(|| *self.health.lock().unwrap_or_else(PoisonError::into_inner) = health);
        self.tables().note(|| format!("the server is {health:?}"));
    }

    pub(crate) fn is_unreachable(&self) -> bool {
        self.health() == Health::Unreachable
    }

    pub(crate) fn notifications(&self) -> u64 {
        self.tables().notified
    }

    /// Waits for the next notification after this many. Returns `None` after the timeout.
    pub(crate) fn wait_for_notification(&self, received: u64, timeout: Duration) -> Option<()> {
        let next = || {
            let is_up = matches!(self.health(), Health::Healthy | Health::Slow);
            (is_up && self.notifications() > received).then_some(())
        };
        clock::wait(Some(Instant::now() + timeout), next)
    }

    /// Commits an enqueue, which checked for waiting workers when it started.
    pub(crate) fn enqueue(&self, ids: &[i64], notify: bool) {
        clock::change(|| {
            let mut tables = self.tables();
            for &id in ids {
                let job = Stored {
                    id,
                    attempt: 0,
                    crashes: 0,
                };
                tables.ready.insert(id, job);
            }
            tables.enqueued.extend(ids);
            tables.notified += u64::from(notify);
            tables.note(|| format!("enqueued {ids:?}, notified: {notify}"));
        });
    }

    /// Whether a worker waits for notifications.
    pub(crate) fn has_waiting_worker(&self) -> bool {
        self.tables().workers.values().any(WorkerRow::is_notified)
    }

    /// Executes a statement, according to the server's health.
    pub(crate) fn answer(
        &self,
        doing: &str,
        name: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>> {
        let half = match self.health() {
            Health::Slow => Duration::from_millis(700),
            Health::Healthy | Health::Unreachable | Health::Silent | Health::Mute => {
                self.max_duration / 2
            }
        };
        clock::sleep(random_time(half));
        let refused = || Error::lost(format!("could not {doing}: the server is unreachable"));
        match self.health() {
            Health::Unreachable => Err(refused()),
            Health::Healthy | Health::Slow => {
                let rows = self.execute(name, parameters);
                clock::sleep(random_time(half));
                match self.health() {
                    Health::Healthy | Health::Slow => Ok(rows),
                    // The connection closes after the commit and before the answer.
                    Health::Unreachable => Err(refused()),
                    Health::Silent | Health::Mute => {
                        self.wait_until_healthy();
                        Err(refused())
                    }
                }
            }
            Health::Silent => {
                self.wait_until_healthy();
                // The request was in the server's socket, or it was lost with the connection.
                if crate::scenario::random(2) == 0 {
                    self.execute(name, parameters);
                }
                Err(refused())
            }
            Health::Mute => {
                self.execute(name, parameters);
                self.wait_until_healthy();
                Err(refused())
            }
        }
    }

    /// Applies a statement to the tables, in one step.
    pub(crate) fn execute(&self, name: &str, parameters: &[Parameter<'_>]) -> Vec<Row> {
        clock::change(|| statements::execute(&mut self.tables(), name, parameters))
    }

    fn wait_until_healthy(&self) {
        clock::wait(None, || {
            (!matches!(self.health(), Health::Silent | Health::Mute)).then_some(())
        });
    }
}
