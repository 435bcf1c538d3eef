//! The builder of a worker: its configuration, checked as a whole, and its start.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use uuid::Uuid;

use crate::backoff::Backoff;
use crate::claim::mark::Marks;
use crate::claim::{Suspects, WorkerId};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::failure::Failure;
use crate::floor::channel::bounded;
use crate::floor::thread;
use crate::floor::{Mutex, Transaction};
use crate::job::Job;
use crate::lane::Lane;
use crate::name;
use crate::payload::Payload;
use crate::queue::Queue;
use crate::settle::Settler;
use crate::worker::claimer::{Claimer, Outlet};
use crate::worker::flood::Flood;
use crate::worker::handlers::{self, HandlerOptions, Handlers};
use crate::worker::limits;
use crate::worker::recovery::Recovery;
use crate::worker::second::Second;
use crate::worker::slot::{self, Bench};
use crate::worker::state::{Config, End, Redact, State};
use crate::worker::{Worker, fetch, pulse, settling, watch, watched};

/// The connections that a worker needs for itself: fetcher, settler, pulse, and one for calls.
pub const WORKER_CONNECTIONS: u32 = 4;

/// The heap of a segment of the ring, in bytes, after which the ring turns. Small enough that a
/// held xmin horizon hurts little, large enough that the truncations are not felt.
const SEGMENT_BYTES: i64 = 32 * 1024 * 1024;

/// How many claimed jobs may be between the fetcher and the slots.
const JOBS_IN_CHANNEL: usize = 4096;

/// How many messages may be between the slots and the settler.
const MESSAGES_IN_CHANNEL: usize = 4096;

/// The configuration of a worker; see [`Worker::builder`].
///
/// Every mistake in it is an error of [`start`](WorkerBuilder::start); nothing panics.
pub struct WorkerBuilder {
    queue: Queue,
    handlers: Handlers,
    slots: usize,
    lease: Duration,
    poll: Option<Duration>,
    hold_for: Duration,
    backoff: Backoff,
    deadline: Duration,
    version: Option<String>,
    redact: Option<Redact>,
    trip_after: u32,
    flood: Option<(usize, Duration)>,
    trouble: Option<Error>,
}

impl WorkerBuilder {
    pub(crate) fn new(queue: &Queue) -> WorkerBuilder {
        WorkerBuilder {
            queue: queue.clone(),
            handlers: Handlers::default(),
            slots: thread::available_parallelism().map_or(4, usize::from),
            lease: limits::LEASE,
            poll: None,
            hold_for: limits::HOLD_FOR,
            backoff: Backoff::default(),
            deadline: limits::DEADLINE,
            version: None,
            redact: None,
            trip_after: limits::TRIP_AFTER,
            flood: None,
            trouble: None,
        }
    }

    /// How many jobs run at a time, each on a thread of its own.
    /// Defaults to the processors of the machine; 1 to 10,000.
    #[must_use]
    pub fn slots(mut self, slots: usize) -> WorkerBuilder {
        self.slots = slots;
        self
    }

    /// How long after its last renewal a worker is taken for lost, and its jobs are taken back.
    /// It is renewed every third of it. Defaults to 60 seconds; 2 seconds to 1 hour.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> WorkerBuilder {
        self.lease = lease;
        self
    }

    /// How often an idle worker looks for jobs when no notification tells it, give or take a
    /// fifth. Defaults to 3 seconds, and behind a [pooler in transaction mode](crate::Pooler), where
    /// it looks again soon when it found something and then ever later, to 1. 5 ms to 1 minute.
    #[must_use]
    pub fn poll(mut self, poll: Duration) -> WorkerBuilder {
        self.poll = Some(poll);
        self
    }

    fn poll_every(&self) -> Duration {
        self.poll
            .unwrap_or(limits::poll(self.queue.database().stands_behind()))
    }

    /// For how long jobs may wait in this worker while each of its slots runs one and the same job;
    /// then they are given back, uncharged. Defaults to 100 milliseconds; 10 milliseconds to 24 hours.
    ///
    /// Quick jobs are claimed by the hundred. When those in front turn out to be slow, the others
    /// should not wait for them: a slot elsewhere may be free.
    #[must_use]
    pub fn hold_for(mut self, hold_for: Duration) -> WorkerBuilder {
        self.hold_for = hold_for;
        self
    }

    /// The wait before retries, for kinds without one of their own.
    /// Defaults to [`Backoff::default`].
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> WorkerBuilder {
        self.backoff = backoff;
        self
    }

    /// How long a handler may run, for kinds without a deadline of their own.
    /// Defaults to 15 minutes; 1 millisecond to 24 hours.
    ///
    /// At the deadline the handler is told, its slot is replaced, and the attempt has failed;
    /// what it says later is refused. Handlers can outlive a lease: the worker renews it.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> WorkerBuilder {
        self.deadline = deadline;
        self
    }

    /// The version of your program, kept with every attempt. Defaults to redrive's own.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> WorkerBuilder {
        self.version = Some(version.into());
        self
    }

    /// Takes out of every error text (message, cause chain, backtrace) what must not be kept,
    /// before it leaves the process: the letter and the history have only what the hook answers.
    /// When the hook panics the text is lost, and the verdict stands.
    ///
    /// What every program must obey, and payloads, are the business of the redactions in the
    /// database.
    #[must_use]
    pub fn redact<F>(mut self, hook: F) -> WorkerBuilder
    where
        F: Fn(&str) -> String + Send + Sync + 'static,
    {
        self.redact = Some(Arc::new(hook));
        self
    }

    /// After how many outages in a row ([`Failure::outage`]) the breaker opens. Defaults to 5;
    /// 1 to 1000.
    ///
    /// They are counted in this process, over all its slots, apart for each dependency; any other
    /// end of a job that needs the same breaks the row. So with several slots it opens as soon as
    /// that many have failed, at the same time or one after another. Jobs in hand that were not
    /// started go back then.
    #[must_use]
    pub fn breaker_after(mut self, outages: u32) -> WorkerBuilder {
        self.trip_after = outages;
        self
    }

    /// Opens the breaker of the queue when this worker writes more than so many letters within a
    /// span of time, so that jobs wait instead of dying, all of them, of what is a bug or an
    /// outage that nobody named. Off by default; 1 to 1,000,000 letters, 1 second to 24 hours.
    ///
    /// Cancelled jobs do not count. Nothing is dropped: what died is a letter. A single job is tried now and then, and only when
    /// one succeeds does the breaker close by itself.
    #[must_use]
    pub fn flood_guard(mut self, letters: usize, per: Duration) -> WorkerBuilder {
        self.flood = Some((letters, per));
        self
    }

    /// Handles the jobs of a kind with a plain function.
    #[must_use]
    pub fn handle<P, F>(self, handler: F) -> WorkerBuilder
    where
        P: Payload + 'static,
        F: Fn(&Job<P>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.handle_with(HandlerOptions::new(), handler)
    }

    /// Handles the jobs of a kind with a backoff or deadline of their own.
    #[must_use]
    pub fn handle_with<P, F>(self, options: HandlerOptions, handler: F) -> WorkerBuilder
    where
        P: Payload + 'static,
        F: Fn(&Job<P>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.add(P::KIND, handlers::typed(options, handler))
    }

    /// Handles the jobs of a kind inside a transaction that also ends the job: what the handler
    /// writes through it and the end of the job commit together or not at all, so effects in
    /// this database happen exactly once.
    ///
    /// Such jobs are claimed one to a lease and use a connection of the pool each while they run.
    #[must_use]
    pub fn handle_in_transaction<P, F>(self, handler: F) -> WorkerBuilder
    where
        P: Payload + 'static,
        F: Fn(&Job<P>, &mut Transaction<'_>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        let db = self.queue.database().clone();
        self.add(
            P::KIND,
            handlers::in_transaction(HandlerOptions::new(), db, handler),
        )
    }

    /// Handles the jobs of a kind that is known only when the program runs, undecoded.
    #[must_use]
    pub fn handle_kind<F>(self, kind: &str, handler: F) -> WorkerBuilder
    where
        F: Fn(&Job<Box<RawValue>>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.add(kind, handlers::raw(HandlerOptions::new(), handler))
    }

    /// Handles the jobs of every kind that has no handler of its own, undecoded.
    #[must_use]
    pub fn handle_any<F>(mut self, handler: F) -> WorkerBuilder
    where
        F: Fn(&Job<Box<RawValue>>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        if !self
            .handlers
            .add_any(handlers::raw(HandlerOptions::new(), handler))
        {
            self.refuse("a worker has one handler for any kind, and two were given");
        }
        self
    }

    fn add(mut self, kind: &str, handler: handlers::Handler) -> WorkerBuilder {
        if let Err(error) = name::check("kind", kind) {
            self.trouble.get_or_insert(error);
        }
        if !self.handlers.add(kind, handler) {
            self.refuse(&format!("kind `{kind}` has two handlers"));
        }
        self
    }

    fn refuse(&mut self, why: &str) {
        self.trouble.get_or_insert(Error::invalid(why));
    }

    /// How soon such a worker, and the jobs of one that died, recover from faults.
    pub fn recovery(&self) -> Recovery {
        let db = self.queue.database();
        let (call, connect) = (db.call_timeout(), db.connect_timeout());
        Recovery::of(self.lease, self.poll_every(), call, connect)
    }

    /// Starts the threads of the worker. It warns in the log of each [`Lapse`](crate::Lapse).
    ///
    /// # Errors
    /// *Invalid* for a mistake in the configuration: no handler, two for a kind, a number out of
    /// range, a pool with fewer than [`WORKER_CONNECTIONS`]; *migration required* or *schema
    /// newer* when the schema does not fit; *unavailable* when the database does not answer.
    pub fn start(mut self) -> Result<Worker> {
        self.check()?;
        let db = self.queue.database().clone();
        // Connections are opened while the schema is looked at: all of them one after another would
        // be half of the time until the first job begins.
        let mut fetcher_lane = db.hold("redrive-fetcher-db");
        let mut settler_lane = db.hold("redrive-settler-db");
        fetcher_lane.warm()?;
        settler_lane.warm()?;
        db.check_schema()?;
        #[cfg(panic = "abort")]
        log::error!(
            "this program is built with panic=abort: a handler that panics takes the whole worker with it"
        );

        let settler = Settler {
            worker: WorkerId(Uuid::new_v4()),
            host: host().into(),
            version: self
                .version
                .take()
                .unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned())
                .into(),
            pid: std::process::id().cast_signed(),
        };
        let config = Config {
            poll: self.poll_every(),
            queue: self.queue,
            kinds: self.handlers.kinds(),
            alone: self.handlers.kinds_in_transactions(),
            handlers: self.handlers,
            slots: self.slots,
            lease: self.lease,
            hold_for: self.hold_for,
            backoff: self.backoff,
            deadline: self.deadline,
            redact: self.redact,
            segment_bytes: SEGMENT_BYTES,
            trip_after: self.trip_after,
            flood: self.flood.map(|(letters, per)| Flood::new(letters, per)),
        };
        let (state, room) = State::new(config, settler);
        let state = Arc::new(state);
        let mut pulse_lane = db.hold("redrive-pulse-db");
        pulse::register(&state, &mut pulse_lane)?;

        let (jobs, claimed) = bounded(JOBS_IN_CHANNEL);
        let (settle, messages) = bounded(MESSAGES_IN_CHANNEL);
        let (wake, woken) = bounded(64);
        let (bye, left) = bounded(1);
        let (end, over) = End::new();
        let (claiming, claimed_last) = End::new();
        let bench = Bench {
            state: Arc::clone(&state),
            jobs: claimed,
            settle: settle.clone(),
            left: bye,
        };
        for _ in 0..state.config.slots {
            slot::start(&bench)?;
        }
        let outlet = Outlet {
            jobs,
            settle: settle.clone(),
        };
        let (claimer, second) = claimers(&state, &db, fetcher_lane, &outlet)?;
        let threads = vec![
            watched::start(&state, "settler", {
                let (state, wake) = (Arc::clone(&state), wake.clone());
                move || settling::work(&state, settler_lane, &messages, &wake)
            })?,
            watched::start(&state, "pulse", {
                let (state, over) = (Arc::clone(&state), over.clone());
                move || pulse::work(&state, pulse_lane, &wake, &over)
            })?,
            watched::start(&state, "fetcher", {
                let state = Arc::clone(&state);
                move || {
                    // Dropped when it ends, however it ends.
                    let _claiming = claiming;
                    fetch::work(&state, claimer, &outlet, second, &woken, &room);
                }
            })?,
        ];
        // Not joined: it ends within its next look.
        watched::start(&state, "watch", move || watch::work(&bench, &over))?;
        log::info!(
            "worker {} of queue `{}` started with {} slots",
            state.settler.worker.0,
            state.queue(),
            state.config.slots
        );
        Ok(Worker {
            state,
            settle,
            left,
            over: Arc::new(end),
            claimed_last,
            threads,
        })
    }

    fn check(&mut self) -> Result<()> {
        if let Some(trouble) = self.trouble.take() {
            return Err(trouble);
        }
        let queue = self.queue.name();
        let refuse = |why: String| {
            Err(Error::invalid(format!(
                "the worker of queue `{queue}` {why}"
            )))
        };
        let within =
            |time: &Duration, least: Duration, most: Duration| (least..=most).contains(time);
        let (second, day) = (Duration::from_secs(1), Duration::from_hours(24));
        if self.handlers.is_empty() {
            return refuse("has no handler".to_owned());
        }
        if !(1..=limits::MOST_SLOTS).contains(&self.slots) {
            return refuse(format!("has {} slots, not 1 to 10,000", self.slots));
        }
        if !within(&self.lease, limits::SHORTEST_LEASE, limits::LONGEST_LEASE) {
            return refuse(format!("has a lease of {:?}, not 2 s to 1 h", self.lease));
        }
        let poll = self.poll_every();
        if !within(&poll, limits::SHORTEST_POLL, limits::LONGEST_POLL) {
            return refuse(format!("has a poll of {poll:?}, not 5 ms to 1 min"));
        }
        if !within(&self.hold_for, limits::SHORTEST_HOLD, limits::LONGEST_HOLD) {
            return refuse(format!(
                "holds jobs for {:?}, not 10 ms to 24 h",
                self.hold_for
            ));
        }
        if let Some(deadline) = self
            .handlers
            .deadlines()
            .chain([self.deadline])
            .find(|deadline| {
                !within(
                    deadline,
                    limits::SHORTEST_DEADLINE,
                    limits::LONGEST_DEADLINE,
                )
            })
        {
            return refuse(format!("has a deadline of {deadline:?}, not 1 ms to 24 h"));
        }
        if !(1..=limits::MOST_TRIP_AFTER).contains(&self.trip_after) {
            return refuse(format!(
                "opens breakers after {} outages, not 1 to 1000",
                self.trip_after
            ));
        }
        if let Some((letters, per)) = &self.flood
            && !((1..=1_000_000).contains(letters) && within(per, second, day))
        {
            return refuse(format!(
                "guards against {letters} letters within {per:?}, not 1 to 1,000,000 within 1 s to 24 h"
            ));
        }
        for dependency in self.handlers.dependencies().values() {
            name::check("dependency", dependency)?;
            if dependency.starts_with("queue:") {
                return refuse(format!(
                    "has a dependency `{dependency}`: what begins with `queue:` is a queue"
                ));
            }
        }
        let connections = self.queue.database().connections();
        if connections < WORKER_CONNECTIONS {
            return refuse(format!(
                "has a pool of {connections} connections and needs {WORKER_CONNECTIONS}"
            ));
        }
        Ok(())
    }
}

impl fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerBuilder")
            .field("queue", &self.queue.name())
            .finish_non_exhaustive()
    }
}

/// What the fetchers claim with: the first one over this lane, the second one over one of its own.
fn claimers(
    state: &Arc<State>,
    db: &Database,
    lane: Lane,
    outlet: &Outlet,
) -> Result<(Claimer, Second)> {
    let marks = Arc::new(Mutex::new(Marks::new()));
    let db = db.clone();
    let second = move || db.hold("redrive-fetcher-2-db");
    Ok((
        Claimer::new(state, lane, &marks, Suspects::One),
        Second::start(state, second, &marks, outlet)?,
    ))
}

/// The name of this machine, as well as it can be told without asking the system in unsafe ways.
fn host() -> String {
    let from_file = || std::fs::read_to_string("/etc/hostname").ok();
    std::env::var("HOSTNAME")
        .ok()
        .or_else(from_file)
        .map(|name| {
            name.trim()
                .chars()
                .filter(|c| !c.is_control())
                .take(100)
                .collect::<String>()
        })
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}
