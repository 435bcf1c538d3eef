//! Runs the jobs of one queue on plain threads.
//!
//! The *fetcher* claims jobs, *slots* run handlers, and the *settler* writes verdicts in batches.
//! The *renewer* keeps the leases and receives notifications, and the *chores* have their own thread.
//! The *watchdog* enforces deadlines without the database. Bounded channels connect the threads; a
//! thread ends when its channel is closed.

mod latch;
mod limits;
mod recovery_bounds;
mod flood;
mod breaker_state;
pub(crate) mod handlers;
mod own_transaction;
mod batch;
mod gathering;
mod batch_handler;
mod handler_table;
pub(crate) mod registry;
mod slot_state;
#[cfg(feature = "tracing")]
mod span;
pub(crate) mod observer;
mod lease_trust;
mod stats;
mod passed_groups;
mod outage_log;
mod state;
mod threads;
mod retry;
mod lapses;
mod wake_mode;
mod breaker_reports;
mod ledger;
mod conclusion;
mod settler;
pub(crate) mod slot;
mod gatherer;
mod overruns;
mod watchdog;
mod claimer;
mod second_fetcher;
mod fetcher;
mod chore;
mod chore_tallies;
mod unhandled_kinds;
mod chores;
mod renewer;
#[cfg(feature = "signals")]
mod signals;
mod builder;
pub(crate) mod workers;

use std::fmt;
use std::iter::Sum;
use std::sync::Arc;
use std::time::Duration;

pub use batch::{Batch, BatchJob, BatchOptions, OnFailure};
pub use builder::{WORKER_CONNECTIONS, WorkerBuilder};
use conclusion::{EndedAttempt, conclude, share};
pub use handlers::{HandlerOptions, Undecodable};
use latch::{Latch, LatchReceiver, lock};
pub use observer::{Attempt, AttemptOutcome};
pub use recovery_bounds::RecoveryBounds;
use settler::{Finish, Message};
use slot_state::RunningJob;
use state::State;
pub use stats::WorkerStats;
pub use workers::{Workers, WorkersBuilder};

use crate::db::pool_share::PoolShare;
use crate::error::{Error, Result};
use crate::job::job::JobId;
use crate::job::wait::from_now;
use crate::pipeline::queue::Queue;
use crate::pipeline::settlement::Settlement;
use crate::sync::Instant;
use crate::sync::atomic::Ordering;
use crate::sync::channel::{Receiver, RecvTimeoutError, Sender, bounded};
use crate::sync::thread::{self, JoinHandle};

/// How long cancelled handlers get to end after the grace period.
const CANCEL_GRACE: Duration = Duration::from_millis(200);

/// How long a claim in flight, and then the release of jobs, may take if the grace period has ended.
const CLAIM_TIME: Duration = Duration::from_secs(2);
const RELEASE_TIME: Duration = Duration::from_secs(3);
/// How long a stop waits for threads that must end at a moment.
const END_TIME: Duration = Duration::from_secs(1);
/// The first and the longest pause between checks whether threads have ended.
const MIN_END_PAUSE: Duration = Duration::from_millis(1);
const MAX_END_PAUSE: Duration = Duration::from_millis(20);

/// The first and the longest pause between checks of [`Worker::drain`].
const MIN_DRAIN_PAUSE: Duration = Duration::from_millis(5);
const MAX_DRAIN_PAUSE: Duration = Duration::from_millis(250);

/// Runs claimed jobs on a pool of threads.
///
/// Call [`stop`](Worker::stop) to shut down gracefully. Dropping a worker stops claiming at once;
/// jobs it still holds are retried elsewhere when their lease expires.
pub struct Worker {
    state: Arc<State>,
    settle: Sender<Message>,
    /// Receives a message when a slot ends.
    left: Receiver<()>,
    over: Arc<Latch>,
    /// Closed after the last claim.
    claimed_last: LatchReceiver,
    threads: Vec<JoinHandle<()>>,
    /// It holds connections of the pool.
    _share: Arc<PoolShare>,
}

impl Worker {
    /// Returns a builder for a worker of this queue.
    pub fn builder(queue: &Queue) -> WorkerBuilder {
        WorkerBuilder::new(queue)
    }

    /// Returns what the worker has done since it started.
    pub fn stats(&self) -> WorkerStats {
        self.state.counts.read()
    }

    /// Returns whether the worker holds no job at this moment.
    pub fn is_idle(&self) -> bool {
        self.state.in_flight() == 0
    }

    /// Returns why the worker failed, or `None` while it is healthy.
    ///
    /// A worker fails, and stops claiming, if more handlers than it has slots exceed their deadlines
    /// and still run a second later, or if one of its threads panics. Restart the program then, because
    /// threads cannot be killed.
    pub fn failure(&self) -> Option<&str> {
        self.state.failure.get().map(String::as_str)
    }

    /// Waits up to `timeout` until the queue is empty. Returns whether it is.
    ///
    /// The queue is empty when no job is ready, delayed or leased, so a job that waits for its
    /// retry delays the end. The worker keeps running; call [`stop`](Worker::stop) afterwards.
    ///
    /// # Errors
    /// Fails if the worker stops meanwhile, or if the database does not answer.
    pub fn drain(&self, timeout: Duration) -> Result<bool> {
        let until = from_now(timeout);
        let mut pause = MIN_DRAIN_PAUSE;
        loop {
            if self.state.config.queue.is_drained()? {
                return Ok(true);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            if self.state.stop.recv_timeout(pause.min(left)) != Err(RecvTimeoutError::Timeout) {
                let why = self.failure().unwrap_or("a stop was requested");
                return Err(Error::unavailable(format!(
                    "could not drain queue `{}`: the worker stopped: {why}",
                    self.state.queue()
                )));
            }
            pause = (pause * 2).min(MAX_DRAIN_PAUSE);
        }
    }

    /// Runs until the process receives SIGTERM, SIGINT, SIGHUP or SIGQUIT, then
    /// [stops](Worker::stop) gracefully. A second signal ends the process at once.
    ///
    /// SIGTERM and SIGINT stop the worker even if the parent of this process has blocked or ignored
    /// them. SIGHUP and SIGQUIT do not if the program ignores them or has a handler for them, and a
    /// signal with a handler of the program ends no process here. Also returns when the worker stops
    /// on an error or through a [`stop_handle`](Worker::stop_handle). Needs the feature `signals`,
    /// which is on by default.
    ///
    /// # Errors
    /// As [`stop`](Worker::stop), and if the signal handlers cannot be installed.
    #[cfg(feature = "signals")]
    pub fn run_until_signal(self, grace: Duration) -> Result<StopReport> {
        let _signals = signals::StopSignals::listen(self.stop_handle())?;
        // Closes when a stop is requested. It carries no messages.
        _ = self.state.stop.recv();
        self.stop(grace)
    }

    /// Returns a handle that can request a stop from any thread.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle {
            stopping: Arc::clone(&self.state.stopping),
        }
    }

    /// Shuts down gracefully, within `grace` and a few seconds.
    ///
    /// The worker stops claiming, waits up to `grace` for running handlers, writes their verdicts,
    /// and releases all other jobs without charging an attempt. No lease remains.
    ///
    /// A handler that outlasts `grace` sees [`Job::is_cancelled`](crate::Job::is_cancelled). If it
    /// ends with an error within a moment, the attempt is not charged. If it runs on, its job is
    /// released as well, and its result is rejected. If it runs in a transaction
    /// ([`WorkerBuilder::handle_in_transaction`]), the server ends its connection and rolls the
    /// transaction back.
    ///
    /// # Errors
    /// Fails if the worker had already failed ([`Worker::failure`]), or if its jobs could not be
    /// released because the database is unavailable or does not answer a claim. They then return when
    /// their lease expires.
    pub fn stop(mut self, grace: Duration) -> Result<StopReport> {
        let deadline = from_now(grace);
        self.state.stopping.set();
        self.wait_until_quiet(deadline);
        let (started, cut_off) = self.cut_off();
        let (decided, running) = self.conclude_decided(&cut_off);
        let (reply, answer) = bounded(1);
        let call_timeout = self.state.config.queue.database().call_timeout();
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
        // Fails if it is set already, which only this method does, once.
        _ = self.state.end_by.set(until);
        let slots = lock(&self.state.slots).clone();
        let finish = Finish {
            settlements: slots
                .iter()
                .flat_map(|slot_state| slot_state.take_verdicts())
                .chain(decided)
                .collect(),
            started,
            transactions: running
                .iter()
                .filter_map(|running| running.signal.transaction.get().copied())
                .collect(),
            until,
            reply,
        };
        let finished = self
            .settle
            .send_timeout(Message::Finish(finish), END_TIME)
            .map_err(|_| {
                Error::unavailable("could not stop the worker: its settler does not respond")
            })
            .and_then(|()| {
                answer.recv_deadline(until + END_TIME).map_err(|_| {
                    Error::unavailable(
                        "could not stop the worker: the database does not answer its settler",
                    )
                })
            });
        self.over.set();
        if finished.is_ok() && !is_claiming {
            self.join(until.max(from_now(END_TIME)));
        }
        let released = finished??;
        if is_claiming || self.state.claim_unanswered.load(Ordering::Relaxed) {
            return Err(Error::unavailable(
                "could not release the jobs of a claim that the database has not answered",
            ));
        }
        match self.state.failure.get() {
            Some(why) => Err(Error::unavailable(format!(
                "the worker of queue `{}` had stopped: {why}",
                self.state.queue()
            ))),
            None => Ok(StopReport {
                released: self.stats().released,
                // A transaction may have committed before its job was released.
                still_running: running
                    .iter()
                    .map(|running| running.meta.id)
                    .filter(|job| released.contains(job))
                    .collect(),
                stats: self.stats(),
            }),
        }
    }

    /// Joins the threads. One whose call the database does not answer in time ends later.
    fn join(&mut self, until: Instant) {
        let mut pause = MIN_END_PAUSE;
        for thread in self.threads.drain(..) {
            while !thread.is_finished() && Instant::now() < until {
                thread::sleep(pause);
                pause = (pause * 2).min(MAX_END_PAUSE);
            }
            if thread.is_finished() {
                // The panic hook has printed a panic of the thread.
                _ = thread.join();
            }
        }
    }

    /// Judges the jobs of batches that their handlers have decided about. Returns the settlements, and
    /// the other jobs.
    fn conclude_decided(
        &self,
        running: &[Arc<RunningJob>],
    ) -> (Vec<Settlement>, Vec<Arc<RunningJob>>) {
        let now = Instant::now();
        let (mut decided, mut undecided) = (Vec::new(), Vec::new());
        for batch in running.chunk_by(|job, next| job.started == next.started) {
            for running in batch {
                let run_time = share(running.started, batch.len(), now);
                match EndedAttempt::decided(&running.signal, run_time, now) {
                    // A breaker that this opens would not be stored by a worker that stops.
                    Some(ended) => decided.push(conclude(&self.state, running, ended).0),
                    None => undecided.push(Arc::clone(running)),
                }
            }
        }
        (decided, undecided)
    }

    fn wait_until_quiet(&self, deadline: Instant) {
        while self.state.has_busy_slots() && self.left.recv_deadline(deadline).is_ok() {}
    }

    /// Takes the jobs of handlers that are still running. Returns the jobs that have started, including those whose
    /// slots are about to judge them, and those that it has taken.
    fn cut_off(&self) -> (Vec<JobId>, Vec<Arc<RunningJob>>) {
        let slots = lock(&self.state.slots).clone();
        let running = || {
            slots
                .iter()
                .flat_map(|slot_state| lock(&slot_state.running).clone())
        };
        if running().next().is_none() {
            return (Vec::new(), Vec::new());
        }
        for running in running() {
            running.signal.cancel_by_stop();
        }
        self.wait_until_quiet(from_now(CANCEL_GRACE));
        let running: Vec<_> = running().collect();
        let started = running.iter().map(|running| running.meta.id).collect();
        let is_ours =
            |running: &Arc<RunningJob>| !running.signal.given_away.swap(true, Ordering::AcqRel);
        (started, running.into_iter().filter(is_ours).collect())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.state.stopping.set();
        self.over.set();
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("queue", &self.state.queue())
            .finish_non_exhaustive()
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
    /// The number of jobs released, at the stop and before.
    pub released: u64,
    /// The released jobs whose handlers were still running.
    pub still_running: Vec<JobId>,
    /// The worker's results until it stopped.
    pub stats: WorkerStats,
}

/// The result of several workers together.
impl Sum for StopReport {
    fn sum<I: Iterator<Item = StopReport>>(all: I) -> StopReport {
        all.fold(StopReport::default(), |mut sum, one| {
            sum.released += one.released;
            sum.still_running.extend(one.still_running);
            sum.stats = [sum.stats, one.stats].into_iter().sum();
            sum
        })
    }
}
