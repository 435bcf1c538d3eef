//! Runs the jobs of a queue, or of several, on plain threads.
//!
//! The *fetcher* claims jobs, *slots* run handlers, and the *settler* writes verdicts in batches.
//! The *renewer* keeps the leases and receives notifications, and the *chores* have their own thread.
//! The *watchdog* enforces deadlines without the database. Bounded channels connect the threads; a
//! thread ends when its channel is closed.

mod latch;
mod limits;
mod flood;
mod breaker_state;
mod batch;
mod gathering;
pub(crate) mod handlers;
mod batch_handler;
mod form;
pub(crate) mod registry;
mod slot_state;
pub(crate) mod own_transaction;
mod slots;
#[cfg(feature = "tracing")]
mod span;
pub(crate) mod observer;
mod lease_trust;
mod stats;
mod outage_log;
mod shared;
mod state;
mod queues;
mod threads;
mod retry;
mod wake_mode;
mod ledger;
mod conclusion;
mod settler;
pub(crate) mod slot;
mod gatherer;
mod watchdog;
mod source;
mod claimer;
mod second_fetcher;
mod fetcher;
pub(crate) mod chore;
mod chores;
mod renewer;
#[cfg(feature = "signals")]
mod signals;
mod builder;
pub(crate) mod workers;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use batch::{Batch, BatchJob, BatchOptions};
pub use builder::{WORKER_CONNECTIONS, WorkerBuilder};
use conclusion::conclude;
pub use form::JobHandler;
use handlers::decided;
pub use handlers::{HandlerOptions, Undecodable};
use latch::{Latch, LatchReceiver};
pub use observer::{Attempt, AttemptOutcome};
use settler::{CutOff, Message};
use shared::Shared;
use slot::SlotContext;
use slot_state::{Run, TakenBy};
use state::State;
pub use stats::WorkerStats;
pub use workers::{Workers, WorkersBuilder};

use crate::db::database::Database;
use crate::db::pool_share::PoolShare;
use crate::error::{Error, Result};
use crate::job::job::JobId;
use crate::job::wait::from_now;
use crate::pipeline::queue::{Queue, are_drained};
use crate::sync::Instant;
use crate::sync::atomic::Ordering;
use crate::sync::channel::{RecvTimeoutError, bounded};

/// How long cancelled handlers get to end after the grace period.
const CANCEL_GRACE: Duration = Duration::from_millis(200);

/// How long a claim in flight, and then the release of jobs, may take if the grace period has ended.
const CLAIM_TIME: Duration = Duration::from_secs(2);
const RELEASE_TIME: Duration = Duration::from_secs(3);
/// How long a stop waits for threads that must end at a moment.
const END_TIME: Duration = Duration::from_secs(1);

/// The first and the longest pause between checks of [`Worker::drain`].
const MIN_DRAIN_PAUSE: Duration = Duration::from_millis(5);
const MAX_DRAIN_PAUSE: Duration = Duration::from_millis(250);

/// Runs the jobs of a queue, or of [several](Workers::builder), on a pool of threads.
///
/// Call [`stop`](Worker::stop) to shut down gracefully. Dropping a worker stops claiming at once;
/// jobs it still holds are retried elsewhere when their lease expires.
pub struct Worker {
    queues: Arc<[SlotContext]>,
    shared: Arc<Shared>,
    over: Latch,
    /// Closed after the last claim.
    claimed_last: LatchReceiver,
    /// Closed when the threads beside those of claims and slots have ended.
    ended: LatchReceiver,
    /// It holds connections of the pool.
    _share: PoolShare,
}

impl Worker {
    /// Returns a builder for a worker of this queue.
    pub fn builder(queue: &Queue) -> WorkerBuilder {
        WorkerBuilder::new(queue)
    }

    /// Returns what the worker has done since it started.
    pub fn stats(&self) -> WorkerStats {
        let mut stats = WorkerStats::default();
        self.states()
            .for_each(|state| state.counts.add_to(&mut stats));
        stats
    }

    /// Returns what it has done for each of its queues since it started.
    pub fn stats_by_queue(&self) -> BTreeMap<String, WorkerStats> {
        let mut by_queue: BTreeMap<String, WorkerStats> = BTreeMap::new();
        for state in self.states() {
            let counts = by_queue.entry(state.queue().to_owned()).or_default();
            state.counts.add_to(counts);
        }
        by_queue
    }

    fn states(&self) -> impl Iterator<Item = &Arc<State>> {
        self.queues.iter().map(|queue| &queue.state)
    }

    /// Returns whether the worker holds no job at this moment.
    pub fn is_idle(&self) -> bool {
        self.states().all(|state| state.in_flight() == 0)
    }

    /// Returns why the worker failed, or `None` while it is healthy.
    ///
    /// A worker fails, and stops claiming, if more handlers than it has slots exceed their deadlines
    /// and still run a second later, or if one of its threads panics. Restart the program then, because
    /// threads cannot be killed.
    pub fn failure(&self) -> Option<&str> {
        self.shared.failure.get().map(|(_, why)| &**why)
    }

    /// Waits up to `timeout` until its queues are empty. Returns whether they are.
    ///
    /// A queue is empty when no job is ready, delayed or leased, so a job that waits for its
    /// retry delays the end. The worker keeps running; call [`stop`](Worker::stop) afterwards.
    ///
    /// # Errors
    /// Fails if the worker stops meanwhile, or if the database does not answer.
    pub fn drain(&self, timeout: Duration) -> Result<bool> {
        let until = from_now(timeout);
        let mut pause = MIN_DRAIN_PAUSE;
        let queues: Vec<String> = self.states().map(|it| it.queue().to_owned()).collect();
        // In one look, because a job of one queue may add a follow-up to another.
        while !are_drained(self.database(), &queues)? {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let stop = &self.shared.stopping.closed;
            if stop.recv_timeout(pause.min(left)) != Err(RecvTimeoutError::Timeout) {
                let why = self.failure().unwrap_or("a stop was requested");
                return Err(Error::unavailable(format!(
                    "could not drain queue `{}`: the worker stopped: {why}",
                    queues.join("`, `")
                )));
            }
            pause = (pause * 2).min(MAX_DRAIN_PAUSE);
        }
        Ok(true)
    }

    fn database(&self) -> &Database {
        self.queues[0].state.config.queue.database()
    }

    /// Runs until the process receives SIGTERM, SIGINT, SIGHUP or SIGQUIT, or the worker stops on an error or through
    /// a [`stop_handle`](Worker::stop_handle), then [stops](Worker::stop) gracefully. A second signal ends the process
    /// at once.
    ///
    /// SIGTERM and SIGINT work even if the parent of this process has blocked or ignored them. SIGHUP and SIGQUIT do
    /// not if the program ignores or handles them, and a signal that the program handles ends no process here. Needs
    /// the feature `signals`, which is on by default.
    ///
    /// # Errors
    /// As [`stop`](Worker::stop), and if the signal handlers cannot be installed.
    #[cfg(feature = "signals")]
    pub fn run_until_signal(self, grace: Duration) -> Result<StopReport> {
        let _signals = signals::StopSignals::listen(self.stop_handle())?;
        // Closes when a stop is requested. It carries no messages.
        _ = self.shared.stopping.closed.recv();
        self.stop(grace)
    }

    /// Returns a handle that can request a stop from any thread.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle {
            stopping: Arc::clone(&self.shared.stopping),
        }
    }

    /// Shuts down gracefully, within `grace` and a few seconds.
    ///
    /// The worker stops claiming, waits up to `grace` for running handlers, writes their verdicts,
    /// and releases all other jobs without charging an attempt. No lease remains.
    ///
    /// A handler that outlasts `grace` sees [`Job::is_cancelled`](crate::Job::is_cancelled). If it ends with an error
    /// within a moment, the attempt is not charged. If it runs on, its job is released, its result is rejected, and the
    /// server rolls its [transaction](JobHandler#transactions) back.
    ///
    /// # Errors
    /// Fails if the worker had already failed ([`Worker::failure`]), or if the database did not answer, so that its
    /// jobs return when their lease expires.
    pub fn stop(self, grace: Duration) -> Result<StopReport> {
        let deadline = from_now(grace);
        self.shared.stopping.set();
        self.wait_until_quiet(deadline);
        self.cancel_running();
        let cut_off = self.cut_off();
        let call_timeout = self.database().call_timeout();
        // The rest of the grace period, but not longer than a call, and at least a moment.
        let rest = |least: Duration| {
            deadline
                .min(from_now(call_timeout))
                .max(from_now(least.min(call_timeout)))
        };
        // Wait for a claim in flight, so that its jobs are released too.
        let is_claiming =
            self.claimed_last.recv_deadline(rest(CLAIM_TIME)) == Err(RecvTimeoutError::Timeout);
        let until = rest(RELEASE_TIME);
        // Fails if it is set already, which only a stop does, once.
        _ = self.shared.end_by.set(until);
        for slot in self.states().flat_map(|state| state.slots.all()) {
            self.queues[0].tell(Message::Settled(slot.take_verdicts()));
        }
        let (reply, stopped) = bounded(1);
        self.queues[0].tell(Message::Finish {
            cut_off,
            until,
            reply,
        });
        // The answers of the settler for all queues.
        let finished = stopped.recv_deadline(until + END_TIME);
        self.over.set();
        if !is_claiming && !matches!(finished, Err(RecvTimeoutError::Timeout)) {
            // A thread whose call the database does not answer in time ends later.
            _ = self.ended.recv_deadline(until.max(from_now(END_TIME)));
        }
        let still_running = match finished {
            Ok(stopped) => stopped.into_iter().collect::<Result<Vec<_>>>()?.concat(),
            // The settler has panicked, which is the failure of the worker.
            Err(RecvTimeoutError::Disconnected) => Vec::new(),
            Err(RecvTimeoutError::Timeout) => {
                return Err(Error::unavailable(
                    "could not stop the worker: the database does not answer its settler",
                ));
            }
        };
        if is_claiming || self.shared.claim_unanswered.load(Ordering::Relaxed) {
            return Err(Error::unavailable(
                "could not release the jobs of a claim that the database has not answered",
            ));
        }
        match self.shared.failure.get() {
            Some((queue, why)) => Err(Error::unavailable(format!(
                "the worker of queue `{queue}` had stopped: {why}"
            ))),
            None => Ok(StopReport {
                still_running,
                stats: self.stats(),
                by_queue: self.stats_by_queue(),
            }),
        }
    }

    fn wait_until_quiet(&self, deadline: Instant) {
        let is_busy = || self.states().any(|state| state.has_busy_slots());
        while is_busy() && self.shared.left.rung.recv_deadline(deadline).is_ok() {}
    }

    /// Returns what the slots run.
    fn runs(&self) -> Vec<Arc<Run>> {
        let firsts = self.states().filter(|state| state.is_first_of_pool());
        firsts.flat_map(|state| state.slots.runs()).collect()
    }

    /// Cancels the handlers that are still running, and gives them a moment to end.
    fn cancel_running(&self) {
        let runs = self.runs();
        if runs.is_empty() {
            return;
        }
        for running in runs.iter().flat_map(|run| run.jobs()) {
            running.signal.cancel_by_stop();
        }
        self.wait_until_quiet(from_now(CANCEL_GRACE));
    }

    /// Takes the jobs of handlers that are still running. Sends the verdicts on those of batches that their handlers have
    /// decided about.
    fn cut_off(&self) -> CutOff {
        let (runs, now) = (self.runs(), Instant::now());
        let started = runs.iter().flat_map(|run| run.jobs());
        let started = started.map(|running| running.meta.id).collect();
        let (mut settlements, mut undecided) = (Vec::new(), Vec::new());
        for run in runs.iter().filter(|run| run.take(TakenBy::Stop)) {
            for running in run.jobs() {
                match decided(&running.signal) {
                    Some(end) => {
                        let state = &self.queues[run.queue].state;
                        // A breaker that this opens would not be stored by a worker that stops.
                        let (settlement, _) = conclude(state, run, running, end, now);
                        settlements.push((run.queue, settlement));
                    }
                    None => undecided.push(running.clone()),
                }
            }
        }
        self.queues[0].tell(Message::Settled(settlements));
        CutOff {
            started,
            running: undecided,
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.stopping.set();
        self.over.set();
        self.states().for_each(|state| state.abandon_suspects());
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queues = self.states().map(|state| state.queue());
        f.debug_list().entries(queues).finish()
    }
}

/// Requests a stop; see [`Worker::stop_handle`].
#[derive(Clone, Debug)]
pub struct StopHandle {
    stopping: Arc<Latch>,
}

impl StopHandle {
    /// Requests a stop and returns at once. [`Worker::stop`] completes it.
    pub fn stop(&self) {
        self.stopping.set();
    }

    /// Returns whether a stop was requested, or the worker stopped on an error.
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_set()
    }
}

/// The result of a graceful stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StopReport {
    /// The released jobs whose handlers were still running.
    pub still_running: Vec<JobId>,
    /// The worker's results until it stopped.
    pub stats: WorkerStats,
    /// The results for each of its queues.
    pub by_queue: BTreeMap<String, WorkerStats>,
}
