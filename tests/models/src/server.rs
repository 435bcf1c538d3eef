//! The server of the models: the tables of a queue, statements that take effect in one step each,
//! and trouble when a scene says so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use crate::error::{Error, Result};
use crate::floor::Instant;
use crate::floor::clock;
use crate::rows::Row;
use crate::scene::random_time;
use crate::session::Parameter;
use crate::statements;
use crate::tripped::Breaker;

/// A job, wherever it is.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) id: i64,
    pub(crate) attempt: i32,
    pub(crate) crashes: i16,
}

/// A lease and what rides in it.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) worker: Uuid,
    pub(crate) claimed_at: Instant,
    pub(crate) jobs: Vec<Stored>,
    pub(crate) done: BTreeSet<i64>,
    /// The number of the probe that it was claimed for.
    pub(crate) probe: Option<i64>,
}

/// The row of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Present {
    pub(crate) expires_at: Instant,
    pub(crate) waiting: bool,
}

impl Present {
    /// Whether it asked to be told of jobs, and is there.
    pub(crate) fn is_told(&self) -> bool {
        self.waiting && self.expires_at > Instant::now()
    }
}

/// How often was notified of what, so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    pub(crate) jobs: u64,
    pub(crate) breakers: u64,
}

/// What a notification is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Jobs,
    Breakers,
}

/// What the server knows.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) ready: BTreeMap<i64, Stored>,
    pub(crate) delayed: BTreeMap<i64, (Instant, Stored)>,
    pub(crate) leases: BTreeMap<Uuid, Lease>,
    pub(crate) workers: BTreeMap<Uuid, Present>,
    pub(crate) done: BTreeSet<i64>,
    pub(crate) dead: BTreeSet<i64>,
    pub(crate) breakers: BTreeMap<String, Breaker>,
    /// The right to a probe that a worker has just taken, and has claimed nothing for yet.
    pub(crate) right: Option<(Uuid, i64)>,
    /// Notifications so far.
    pub(crate) told: Told,
    /// What took effect, for whoever reads a failure.
    pub(crate) log: Vec<String>,
}

impl Tables {
    pub(crate) fn note(&mut self, what: impl FnOnce() -> String) {
        let at = Instant::now();
        self.log.push(format!("{at:?} {}", what()));
    }

    /// Every job that there is, by its number, and how often.
    pub(crate) fn jobs(&self) -> BTreeMap<i64, usize> {
        let leased = self.leases.values().flat_map(|lease| {
            let undone = |job: &&Stored| !lease.done.contains(&job.id);
            lease.jobs.iter().filter(undone).map(|job| job.id)
        });
        let mut jobs = BTreeMap::new();
        for id in leased
            .chain(self.ready.keys().copied())
            .chain(self.delayed.keys().copied())
            .chain(self.done.iter().copied())
            .chain(self.dead.iter().copied())
        {
            *jobs.entry(id).or_default() += 1;
        }
        jobs
    }
}

/// How the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// It answers.
    Well,
    /// It answers, and takes its time.
    Slow,
    /// It refuses every call.
    Away,
    /// It says nothing; what it was asked takes effect, or does not, when it is well again.
    Silent,
    /// What it is asked takes effect, but its answers do not arrive.
    Mute,
}

pub(crate) struct Server {
    tables: Mutex<Tables>,
    mood: Mutex<Mood>,
    /// How long a statement takes at most.
    slowest: Duration,
}

impl Server {
    pub(crate) fn new(slowest: Duration) -> Server {
        Server {
            tables: Mutex::default(),
            mood: Mutex::new(Mood::Well),
            slowest,
        }
    }

    pub(crate) fn queue(&self) -> &'static str {
        "q"
    }

    /// All threads of an execution are one of the system's: this never waits.
    pub(crate) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mood(&self) -> Mood {
        *self.mood.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn becomes(&self, mood: Mood) {
        clock::change(|| *self.mood.lock().unwrap_or_else(PoisonError::into_inner) = mood);
        self.tables().note(|| format!("the server is {mood:?}"));
    }

    pub(crate) fn is_away(&self) -> bool {
        self.mood() == Mood::Away
    }

    pub(crate) fn told(&self) -> Told {
        self.tables().told
    }

    /// Waits for a notification after these; none: it did not come in time.
    pub(crate) fn wait_to_be_told(&self, heard: Told, patience: Duration) -> Option<News> {
        let news = || {
            if !matches!(self.mood(), Mood::Well | Mood::Slow) {
                return None;
            }
            let told = self.told();
            match told.jobs > heard.jobs {
                true => Some(News::Jobs),
                false => (told.breakers > heard.breakers).then_some(News::Breakers),
            }
        };
        clock::wait(Some(Instant::now() + patience), news)
    }

    /// Commits jobs of an enqueue that looked for waiting workers when it began.
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
            tables.told.jobs += u64::from(notify);
            tables.note(|| format!("enqueued {ids:?}, told: {notify}"));
        });
    }

    /// Whether a worker asked to be told.
    pub(crate) fn somebody_waits(&self) -> bool {
        self.tables().workers.values().any(Present::is_told)
    }

    /// Answers a statement as the server is just now.
    pub(crate) fn answer(
        &self,
        doing: &str,
        name: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>> {
        let half = match self.mood() {
            Mood::Slow => Duration::from_millis(700),
            Mood::Well | Mood::Away | Mood::Silent | Mood::Mute => self.slowest / 2,
        };
        clock::sleep(random_time(half));
        let refused = || Error::unavailable(format!("could not {doing}: the server is away"));
        match self.mood() {
            Mood::Away => Err(refused()),
            Mood::Well | Mood::Slow => {
                let rows = self.act(name, parameters);
                clock::sleep(random_time(half));
                match self.mood() {
                    Mood::Well | Mood::Slow => Ok(rows),
                    // The connection broke after the commit and before the answer.
                    Mood::Away => Err(refused()),
                    Mood::Silent | Mood::Mute => {
                        self.wait_until_well();
                        Err(refused())
                    }
                }
            }
            Mood::Silent => {
                self.wait_until_well();
                // The server had it in its socket, or it was lost with its connection.
                if crate::scene::random(2) == 0 {
                    self.act(name, parameters);
                }
                Err(refused())
            }
            Mood::Mute => {
                self.act(name, parameters);
                self.wait_until_well();
                Err(refused())
            }
        }
    }

    /// What a statement does, in one step.
    pub(crate) fn act(&self, name: &str, parameters: &[Parameter<'_>]) -> Vec<Row> {
        clock::change(|| statements::act(&mut self.tables(), name, parameters))
    }

    fn wait_until_well(&self) {
        clock::wait(None, || {
            (!matches!(self.mood(), Mood::Silent | Mood::Mute)).then_some(())
        });
    }
}
