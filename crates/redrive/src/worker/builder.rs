//! Configures a worker.

mod check;
mod start;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::job::backoff::Backoff;
use crate::job::failure::Failure;
use crate::job::job::Job;
use crate::job::payload::Payload;
use crate::job::setters::setters;
use crate::pipeline::queue::Queue;
use crate::sync::thread;
use crate::worker::batch::{Batch, BatchOptions};
use crate::worker::form::JobHandler;
use crate::worker::handlers::HandlerOptions;
use crate::worker::limits;
use crate::worker::observer::Attempt;
use crate::worker::registry::Handlers;
use crate::worker::state::{Config, Hooks};
pub(crate) use start::start;

/// Connections that a worker needs, however many queues it serves: 5, for two fetchers, the settler, the renewer and the
/// chores. An idle worker holds 4.
pub const WORKER_CONNECTIONS: u32 = 5;

/// Configures a worker; see [`Worker::builder`](crate::worker::Worker::builder).
///
/// [`start`](WorkerBuilder::start) reports invalid settings; no setter panics.
#[derive(Clone)]
#[must_use]
pub struct WorkerBuilder {
    config: Config,
    handlers: Handlers,
    pub(crate) slots: usize,
    /// Its share of the slots of a pool. `None`: it has slots of its own.
    pub(super) weight: Option<u32>,
    version: Option<String>,
    breaker_threshold: u32,
    flood: Option<(usize, Duration)>,
}

impl WorkerBuilder {
    pub(crate) fn new(queue: &Queue) -> WorkerBuilder {
        WorkerBuilder {
            config: Config {
                queue: queue.clone(),
                lease: limits::DEFAULT_LEASE,
                poll: limits::poll(queue.database().pooler_mode()),
                hold_for: limits::DEFAULT_HOLD_TIME,
                backoff: Backoff::default(),
                deadline: limits::DEFAULT_DEADLINE,
                keep_done: None,
                hooks: Hooks::default(),
                unhandled_after: None,
                age_priorities: None,
            },
            handlers: Handlers::new(),
            slots: thread::available_parallelism().map_or(4, usize::from),
            weight: None,
            version: None,
            breaker_threshold: limits::DEFAULT_BREAKER_THRESHOLD,
            flood: None,
        }
    }

    setters! {
        /// Sets how many jobs run at the same time, each on a separate thread.
        ///
        /// Defaults to the number of available processors. Accepts 1 to 10,000.
        pub fn slots(self, slots: usize) => self.slots = slots;

        /// Gives the queue no slots of its own, but a share of the [pool](crate::WorkersBuilder::pool) of its
        /// [`Workers`](crate::Workers).
        ///
        /// Queues with jobs get slots in proportion to their weights, 1 to 1000, and at least one in turn.
        pub fn share(self, weight: u32) => self.weight = Some(weight);

        /// Sets the lease: how long a worker may go without renewing before others take its jobs.
        ///
        /// Defaults to 60 seconds. Accepts 2 seconds to 1 hour. The worker renews three times per
        /// lease, so handlers may run longer than one.
        pub fn lease(self, lease: Duration) => self.config.lease = lease;

        /// Sets how often an idle worker polls when it receives no notification.
        ///
        /// Defaults to 3 seconds (1 second behind a [transaction-mode pooler](crate::Pooler)), with ±20
        /// % jitter. Accepts 5 milliseconds to 1 minute.
        pub fn poll_interval(self, poll: Duration) => self.config.poll = poll;

        /// Sets how long claimed jobs may wait while every slot is busy with one job.
        ///
        /// Defaults to 100 milliseconds. Accepts 10 milliseconds to 24 hours. After that, the worker
        /// releases them without a charge, because another one may have a free slot.
        pub fn hold_for(self, hold_for: Duration) => self.config.hold_for = hold_for;

        /// Sets the delay before retries, for kinds without their own. Defaults to [`Backoff::default`].
        pub fn backoff(self, backoff: Backoff) => self.config.backoff = backoff;

        /// Keeps finished jobs for this time, for kinds without their own [`HandlerOptions::keep_done`].
        ///
        /// Defaults to not at all: a finished job leaves no row. Accepts 1 second to 30 days.
        ///
        /// The row has the id, queue, kind, attempts, priority and times of the job, and not its payload. `redrive job show`,
        /// `redrive job list state=done` and [`Jobs::list`](crate::admin::Jobs::list) read it. A settle then takes about
        /// twice as long. The space is returned up to two days after the time.
        pub fn keep_done(self, time: Duration) => self.config.keep_done = Some(time);

        /// Makes letters of ready jobs whose kind no live worker of the queue has handled for this long,
        /// with the cause [`Unhandled`](crate::dlq::DeathCause::Unhandled).
        ///
        /// Off by default: such jobs wait. Accepts 1 second to 30 days. Choose a time that is longer
        /// than a deployment.
        ///
        /// The time counts while this worker runs and neither it nor another one handles the kind. It considers the
        /// 10,000 jobs of the queue that are next in line, and charges them no attempt.
        pub fn unhandled_after(self, time: Duration) => self.config.unhandled_after = Some(time);

        /// Gives ready jobs of the queue that have waited for this long a higher priority, so that jobs of
        /// higher priorities cannot keep them waiting forever.
        ///
        /// Off by default. Accepts 1 second to 30 days, and a priority of -1000 to 999. Jobs of this priority
        /// or a higher one do not change. A redriven job gets the next higher one, because it ranks behind
        /// new jobs of the same priority.
        ///
        /// A raised job runs before younger ones of its new priority, and keeps it when it is retried or redriven. A
        /// worker looks every third of its lease, or every 10 seconds if that is shorter, at the 500 jobs of each
        /// priority that are next in line, and at more while it raises all of them.
        pub fn age_priorities(self, after: Duration, priority: i16) =>
            self.config.age_priorities = Some((after, priority));

        /// Sets how long a handler may run, for kinds without their own deadline.
        ///
        /// Defaults to 15 minutes. Accepts 1 millisecond to 24 hours.
        ///
        /// At the deadline the attempt fails, [`Job::is_cancelled`] returns true, and another thread
        /// takes over the slot. A later result is rejected. See also [`Worker::failure`](crate::Worker::failure).
        pub fn deadline(self, deadline: Duration) => self.config.deadline = deadline;

        /// Sets the version of your program, which is stored with every attempt. Defaults to redrive's version.
        ///
        /// Accepts 1 to 100 characters without control characters.
        pub fn version(self, version: impl Into<String>) => self.version = Some(version.into());

        /// Sets a hook that removes sensitive data from error texts before they leave the process.
        ///
        /// Error texts are the message, the cause chain and the backtrace. If the hook panics, the text
        /// is dropped. Use redactions in the database for payloads and for rules of all programs.
        pub fn redact(self, hook: impl Fn(&str) -> String + Send + Sync + 'static) =>
            self.config.hooks.redact = Some(Arc::new(hook));

        /// Logs the first line of an error's message after its class. Defaults to off, because messages may
        /// have personal data. The [redaction hook](WorkerBuilder::redact) applies first.
        pub fn log_messages(self, log: bool) => self.config.hooks.logs_messages = log;

        /// Sets a hook that sees every attempt that the worker judges, for error trackers, traces and tests.
        ///
        /// It runs, usually on the thread of the handler, before the outcome is stored; an operator's cancellation, a lost
        /// lease and a rejected follow-up may still change that. It does not see an attempt that a stop gave up because its
        /// handler ran on. Keep it short: the slot waits for it. A panic in it is logged and harms nothing.
        ///
        /// The [guide](crate::_guide::monitoring) has an example.
        pub fn on_attempt(self, hook: impl Fn(&Attempt) + Send + Sync + 'static) =>
            self.config.hooks.observer = Some(Arc::new(hook));

        /// Sets how many consecutive outages ([`Failure::outage`]) open a breaker.
        ///
        /// Defaults to 5. Accepts 1 to 1,000. The worker counts the outages of a dependency over all its slots; any
        /// other result of a job with the same dependency resets the count.
        pub fn breaker_threshold(self, outages: u32) => self.breaker_threshold = outages;

        /// Opens the queue's breaker when this worker dead-letters more than `letters` jobs within `per`, so that a
        /// bad release does not dead-letter a whole queue.
        ///
        /// Off by default. Accepts 1 to 1,000,000 letters and 1 second to 24 hours. Cancelled jobs do not
        /// count. Single jobs then probe the queue, and the breaker closes after the first success.
        pub fn flood_guard(self, letters: usize, per: Duration) => self.flood = Some((letters, per));
    }

    /// Registers a function as the handler of a kind.
    ///
    /// If it takes a transaction, its writes and the completion of the job commit together; see [`JobHandler`].
    pub fn handle<Form>(mut self, handler: impl JobHandler<(), Form>) -> WorkerBuilder {
        self.handlers = self.handlers.handle(handler);
        self
    }

    /// Registers a function as the handler of batches: it receives up to `size` jobs of a kind together.
    ///
    /// A batch starts when it is full or when its first job has waited for the linger time, which
    /// defaults to 100 milliseconds. Each job has its own verdict; see [`BatchJob`](crate::BatchJob).
    ///
    /// ```
    /// # use std::time::Duration;
    /// use redrive::{Batch, BatchOptions, Failure, Payload};
    /// # use redrive::{Queue, Worker};
    /// # use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Reading { celsius: f64 }
    /// # impl Payload for Reading { const KIND: &'static str = "reading"; }
    ///
    /// fn store(batch: &Batch<Reading>) -> Result<(), Failure> {
    ///     for job in batch.jobs() {
    ///         if job.payload().celsius < -273.15 {
    ///             job.fail(Failure::reject("colder than possible")); // only this job
    ///         }
    ///     }
    ///     // … insert the others with one statement; `?` fails all of them.
    ///     Ok(())
    /// }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
    /// # db.migrate()?;
    /// # let queue = Queue::new(&db, "batches")?;
    /// # for celsius in [21.5, -300.0, 22.0] { queue.enqueue(&Reading { celsius })?; }
    ///
    /// let options = BatchOptions::new(100).linger(Duration::from_millis(50));
    /// let worker = Worker::builder(&queue).handle_batch(options, store).start()?;
    /// # assert!(worker.drain(Duration::from_mins(1))?);
    /// # let stats = worker.stop(Duration::from_mins(1))?.stats;
    /// # assert_eq!((stats.done, stats.dead), (2, 1));
    /// # Ok(()) }
    /// ```
    ///
    /// After a failed attempt or the death of its worker, a job runs alone, so a bad job does not fail the others
    /// again. A batch occupies one slot, and each of its jobs counts its share of the run time. If slow jobs of
    /// other kinds share the queue, run the batches in a separate worker.
    pub fn handle_batch<P, F>(mut self, batches: BatchOptions, handler: F) -> WorkerBuilder
    where
        P: Payload + 'static,
        F: Fn(&Batch<P>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.handlers = self.handlers.handle_batch(batches, handler);
        self
    }

    /// Registers a handler for a kind known only at run time. It receives the undecoded payload.
    pub fn handle_kind<F>(mut self, kind: &str, handler: F) -> WorkerBuilder
    where
        F: Fn(&Job<Box<RawValue>>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.handlers = self.handlers.handle_kind(kind, handler);
        self
    }

    /// Registers a handler for every kind without its own. It receives the undecoded payload.
    pub fn handle_any<F>(mut self, handler: F) -> WorkerBuilder
    where
        F: Fn(&Job<Box<RawValue>>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.handlers = self.handlers.handle_any(handler);
        self
    }

    setters! {
        /// Sets the options of the handler registered last; see [`Handlers::options`].
        pub fn options(self, options: HandlerOptions) => self.handlers = self.handlers.options(options);

        /// Registers all handlers of a set.
        pub fn handlers(self, handlers: &Handlers) => self.handlers.join(handlers);
    }
}

impl fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerBuilder")
            .field("queue", &self.config.queue.name())
            .finish_non_exhaustive()
    }
}
