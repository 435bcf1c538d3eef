//! The worker: plain threads that claim, run and settle the jobs of one queue.
//!
//! A *fetcher* claims by demand, *slots* run handlers, a *settler* writes verdicts in groups, a
//! *pulse* keeps the leases and listens for wake-ups, a *watch* tells handlers when to end.
//! Bounded channels connect them; the end of a channel is the signal to end.

mod builder;
pub(crate) mod cells;
mod chores;
mod claimer;
mod fetch;
mod flood;
mod gates;
mod handlers;
mod lapses;
mod ledger;
mod limits;
mod notice;
mod pulse;
mod recovery;
mod reports;
mod second;
mod settling;
mod slot;
mod state;
mod trying;
mod watch;
mod watched;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use builder::{WORKER_CONNECTIONS, WorkerBuilder};
pub use handlers::HandlerOptions;
pub use recovery::Recovery;
use settling::{Finish, Message};
pub use state::Counts;
use state::{End, Ended, State, lock};

use crate::error::{Error, Result};
use crate::floor::Instant;
use crate::floor::atomic::Ordering;
use crate::floor::channel::{Receiver, Sender, bounded};
use crate::floor::thread::JoinHandle;
use crate::job::JobId;
use crate::queue::Queue;

/// How long handlers that ignored the grace get after they are told to end.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A running worker. Stop it with [`Worker::stop`].
///
/// Dropping it stops claiming and lets its threads end by themselves; what they hold comes back
/// when the lease runs out.
pub struct Worker {
    state: Arc<State>,
    settle: Sender<Message>,
    /// Told when a slot ends.
    left: Receiver<()>,
    over: Arc<End>,
    /// Ends when nothing is claimed any more.
    claimed_last: Ended,
    threads: Vec<JoinHandle<()>>,
}

impl Worker {
    /// Starts the configuration of a worker of a queue.
    pub fn builder(queue: &Queue) -> WorkerBuilder {
        WorkerBuilder::new(queue)
    }

    /// What it has done so far.
    pub fn counts(&self) -> Counts {
        self.state.counts.read()
    }

    /// Whether it runs nothing and has nothing claimed at this moment.
    pub fn is_idle(&self) -> bool {
        self.state.in_hand() == 0
    }

    /// Why the worker stopped by itself; `None` while all is well.
    ///
    /// It does when more handlers are stuck beyond their deadlines than it has slots, or a thread
    /// of its own panicked. The program should end then and be started anew: threads cannot be
    /// killed.
    pub fn trouble(&self) -> Option<&str> {
        self.state.failure.get().map(String::as_str)
    }

    /// A handle that signals the stop from anywhere: another thread, a signal handler's.
    pub fn stopper(&self) -> Stop {
        Stop {
            state: Arc::clone(&self.state),
        }
    }

    /// Stops: claims nothing more, lets running handlers end for up to `grace`, writes all
    /// verdicts, gives the rest back with their attempts refunded, and leaves no lease behind.
    ///
    /// Handlers that run on after the grace are told by
    /// [`Job::is_cancelled`](crate::Job::is_cancelled); their jobs go back all the same, and what
    /// they still say is refused.
    ///
    /// # Errors
    /// When the worker had stopped by itself ([`Worker::trouble`]), or when what it held could
    /// not be given back because the database is away: then it comes back when the lease runs
    /// out.
    pub fn stop(mut self, grace: Duration) -> Result<Stopped> {
        let deadline = Instant::now() + grace;
        self.state.stopping.end();
        self.wait_until_quiet(deadline);
        let still_running = self.cut_off();
        let (reply, answer) = bounded(1);
        let call_timeout = self.state.config.queue.database().call_timeout();
        let until = Instant::now() + grace.max(Duration::from_secs(1)).min(call_timeout);
        // What a claim takes that is on its way just now goes back as well.
        _ = self.claimed_last.recv_deadline(until);
        let finish = Finish {
            started: still_running.clone(),
            until,
            reply,
        };
        let finished = self
            .settle
            .send_timeout(Message::Finish(finish), call_timeout)
            .map_err(|_| Error::unavailable("could not stop the worker: its settler is stuck"))
            .and_then(|()| {
                answer.recv_timeout(2 * call_timeout + grace).map_err(|_| {
                    Error::unavailable("could not stop the worker: its settler did not answer")
                })
            });
        self.over.end();
        if finished.is_ok() {
            for thread in self.threads.drain(..) {
                // A panic of a thread of ours has been printed by the panic hook.
                _ = thread.join();
            }
        }
        finished??;
        match self.state.failure.get() {
            Some(why) => Err(Error::unavailable(format!(
                "the worker had stopped by itself: {why}"
            ))),
            None => Ok(Stopped {
                released: self.counts().released,
                still_running,
                counts: self.counts(),
            }),
        }
    }

    fn wait_until_quiet(&self, deadline: Instant) {
        while self.state.has_busy_slots() && self.left.recv_deadline(deadline).is_ok() {}
    }

    /// Takes the jobs from handlers that did not end in time; answers which.
    fn cut_off(&self) -> Vec<JobId> {
        let seats = lock(&self.state.seats).clone();
        let running = || seats.iter().filter_map(|seat| lock(&seat.running).clone());
        if running().next().is_none() {
            return Vec::new();
        }
        for running in running() {
            running.signal.cancelled.store(true, Ordering::Relaxed);
        }
        self.wait_until_quiet(Instant::now() + LAST_WORDS);
        running()
            .filter(|running| !running.signal.given_away.swap(true, Ordering::AcqRel))
            .map(|running| running.facts.id)
            .collect()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.state.stopping.end();
        self.over.end();
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("queue", &self.state.queue())
            .finish_non_exhaustive()
    }
}

/// Signals a worker to stop; see [`Worker::stopper`].
#[derive(Clone, Debug)]
pub struct Stop {
    state: Arc<State>,
}

impl Stop {
    /// Signals the stop and returns at once; [`Worker::stop`] does the rest.
    pub fn stop(&self) {
        self.state.stopping.end();
    }

    /// Whether the worker was told to stop, or stopped by itself.
    pub fn is_stopping(&self) -> bool {
        self.state.stopping.is_ended()
    }
}

/// How a worker stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// How many jobs the worker gave back, at its stop and before.
    pub released: u64,
    /// Those of them whose handlers still ran at the stop.
    pub still_running: Vec<JobId>,
    /// What the worker did in its life.
    pub counts: Counts,
}
