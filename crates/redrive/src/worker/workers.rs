//! Several workers of a program, which start, stop and fail together.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::db::database::Database;
use crate::db::spawn::spawn;
use crate::error::{Error, Result};
use crate::job::wait::from_now;
use crate::pipeline::queue::Queue;
use crate::sync::Instant;
use crate::sync::channel::bounded;
use crate::worker::builder::{WORKER_CONNECTIONS, WorkerBuilder};
use crate::worker::latch::{Latch, LatchReceiver};
use crate::worker::registry::Handlers;
#[cfg(feature = "signals")]
use crate::worker::signals;
use crate::worker::{StopHandle, StopReport, Worker, WorkerStats};

/// The workers of several queues in one process, which start, stop and fail together.
///
/// ```
/// use std::time::Duration;
///
/// use redrive::{Handlers, Job, NewJob, Payload, Workers};
/// # use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Payload)]
/// #[payload(kind = "charge", queue = "payments")]
/// struct Charge { order: i64 }
///
/// #[derive(Serialize, Deserialize, Payload)]
/// #[payload(kind = "receipt", queue = "mails")]
/// struct Receipt { order: i64 }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let db = redrive::Database::builder(&std::env::var("DATABASE_URL")?).connections(15).open()?;
/// # db.migrate()?;
/// let handlers = Handlers::new()
///     .handle(|job: &Job<Charge>| Ok(job.then(NewJob::new(&Receipt { order: job.payload().order })?)?))
///     .handle(|_: &Job<Receipt>| Ok(()));
/// db.enqueue(&Charge { order: 42 })?;
///
/// let workers = Workers::builder(&db)
///     .queue("payments", 4, &handlers) // with 4 slots
///     .queue("mails", 2, &handlers)
///     .each(|worker| worker.version(env!("CARGO_PKG_VERSION")))
///     .start()?;
/// // A service calls `run_until_signal` instead.
/// workers.drain(Duration::from_secs(30))?;
/// assert_eq!(workers.stop(Duration::from_secs(10))?.stats.done, 2);
/// # Ok(()) }
/// ```
///
/// Each worker has its own slots, threads and [connections](crate::limits::WORKER_CONNECTIONS), so a queue whose
/// jobs hang delays no other. As soon as one worker fails or is asked to stop, none claims another job.
pub struct Workers {
    all: Vec<Worker>,
    stopping: Arc<Latch>,
    stop: LatchReceiver,
}

impl Workers {
    /// Returns a builder of workers that share a database.
    pub fn builder(db: &Database) -> WorkersBuilder {
        WorkersBuilder {
            db: db.clone(),
            workers: Vec::new(),
            first_error: None,
        }
    }

    /// Returns what the workers have done since they started, together.
    pub fn stats(&self) -> WorkerStats {
        self.all.iter().map(Worker::stats).sum()
    }

    /// Returns why the first of them failed, or `None` while all are healthy. See [`Worker::failure`].
    pub fn failure(&self) -> Option<&str> {
        self.all.iter().find_map(Worker::failure)
    }

    /// Returns whether they hold no job at this moment.
    pub fn is_idle(&self) -> bool {
        self.all.iter().all(Worker::is_idle)
    }

    /// Waits up to `timeout` until all queues are empty. Returns whether they are. See
    /// [`Worker::drain`].
    ///
    /// A job may add a follow-up to a queue that was empty before, so they are all looked at until none
    /// has a job.
    ///
    /// # Errors
    /// As [`Worker::drain`].
    pub fn drain(&self, timeout: Duration) -> Result<bool> {
        let until = from_now(timeout);
        loop {
            for worker in &self.all {
                if !worker.drain(until.saturating_duration_since(Instant::now()))? {
                    return Ok(false);
                }
            }
            let mut are_drained = true;
            for worker in &self.all {
                are_drained &= worker.state.config.queue.is_drained()?;
            }
            if are_drained {
                return Ok(true);
            }
        }
    }

    /// Returns a handle that can request a stop of all from any thread.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle {
            stopping: Arc::clone(&self.stopping),
        }
    }

    /// Runs until the process receives a signal, as [`Worker::run_until_signal`] does, or until one of the
    /// workers fails, then [stops](Workers::stop) all.
    ///
    /// # Errors
    /// As [`stop`](Workers::stop), and if the signal handlers cannot be installed.
    #[cfg(feature = "signals")]
    pub fn run_until_signal(self, grace: Duration) -> Result<StopReport> {
        let _signals = signals::StopSignals::listen(self.stop_handle())?;
        // Closes when a stop is requested. It carries no messages.
        _ = self.stop.recv();
        self.stop(grace)
    }

    /// Shuts all down at the same time, each as [`Worker::stop`] does. Returns their results together.
    ///
    /// # Errors
    /// The first of their errors, after all have stopped.
    pub fn stop(mut self, grace: Duration) -> Result<StopReport> {
        let until = from_now(grace);
        self.stopping.set();
        let (done, stopped) = bounded(self.all.len());
        let mut here = Vec::new();
        let mut expected = self.all.len();
        for worker in self.all.drain(..) {
            let (give, take) = bounded::<Worker>(1);
            let done = done.clone();
            // A thread that cannot start loses no worker.
            let started = spawn("redrive-stop", move || {
                if let Ok(worker) = take.recv() {
                    _ = done.send(worker.stop(grace));
                }
            });
            match started {
                Ok(_) => _ = give.send(worker),
                Err(_) => here.push(worker),
            }
        }
        drop(done);
        let mut reports: Vec<Result<StopReport>> = Vec::new();
        for worker in here {
            expected -= 1;
            reports.push(worker.stop(until.saturating_duration_since(Instant::now())));
        }
        reports.extend((0..expected).map(|_| {
            let panicked = |_| Error::unavailable("could not stop a worker: its thread panicked");
            stopped.recv().map_err(panicked)?
        }));
        reports.into_iter().sum()
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.all).finish()
    }
}

/// Configures workers; see [`Workers::builder`].
pub struct WorkersBuilder {
    db: Database,
    workers: Vec<WorkerBuilder>,
    first_error: Option<Error>,
}

impl WorkersBuilder {
    /// Adds a worker of a queue with this many slots.
    #[must_use]
    pub fn queue(self, name: &str, slots: usize, handlers: &Handlers) -> WorkersBuilder {
        self.queue_with(name, |worker| worker.slots(slots).handlers(handlers))
    }

    /// Adds a worker of a queue with settings of its own.
    #[must_use]
    pub fn queue_with(
        mut self,
        name: &str,
        configure: impl FnOnce(WorkerBuilder) -> WorkerBuilder,
    ) -> WorkersBuilder {
        match Queue::new(&self.db, name) {
            Ok(queue) => self.workers.push(configure(WorkerBuilder::new(&queue))),
            Err(error) => _ = self.first_error.get_or_insert(error),
        }
        self
    }

    /// Changes the settings of all workers that were added so far.
    #[must_use]
    pub fn each(mut self, configure: impl Fn(WorkerBuilder) -> WorkerBuilder) -> WorkersBuilder {
        self.workers = self.workers.into_iter().map(configure).collect();
        self
    }

    /// Starts the workers. If one cannot start, none runs.
    ///
    /// # Errors
    /// As [`WorkerBuilder::start`]. *Invalid* also if there is no queue.
    pub fn start(mut self) -> Result<Workers> {
        if let Some(error) = self.first_error {
            return Err(error);
        }
        if self.workers.is_empty() {
            return Err(Error::invalid("the workers have no queue"));
        }
        for worker in &mut self.workers {
            worker.check()?;
        }
        let count = u32::try_from(self.workers.len()).unwrap_or(u32::MAX);
        let pool = self.db.workers();
        let share = Arc::new(pool.admit(count, WORKER_CONNECTIONS, self.db.connections())?);
        let (stopping, stop) = Latch::new();
        let stopping = Arc::new(stopping);
        let mut workers = Workers {
            all: Vec::new(),
            stopping: Arc::clone(&stopping),
            stop: stop.clone(),
        };
        for worker in self.workers {
            match worker.launch((Arc::clone(&stopping), stop.clone()), &share) {
                Ok(worker) => workers.all.push(worker),
                Err(error) => {
                    if let Err(other) = workers.stop(Duration::ZERO) {
                        log::warn!("could not stop the workers that had started: {other:#}");
                    }
                    return Err(error);
                }
            }
        }
        Ok(workers)
    }
}

impl fmt::Debug for WorkersBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.workers).finish()
    }
}
