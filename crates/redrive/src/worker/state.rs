//! What the threads of a worker share.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use crate::backoff::Backoff;
use crate::claim::LeaseId;
use crate::claim::demand::{demand, wanted};
use crate::error::Error;
use crate::floor::atomic::{AtomicI16, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use crate::floor::channel::{Receiver, Sender, bounded};
use crate::floor::{Instant, Mutex, MutexGuard};
use crate::job::{Facts, Signal};
use crate::queue::Queue;
use crate::settle::Settler;
use crate::worker::flood::Flood;
use crate::worker::gates::Gates;
use crate::worker::handlers::Handlers;

/// No job has ended yet: as if they were slow, so that the first claim is one job a slot.
const UNKNOWN: u64 = u64::MAX;

/// The configuration of a running worker, checked.
pub(crate) struct Config {
    pub(crate) queue: Queue,
    pub(crate) handlers: Handlers,
    /// The kinds to claim; `None`: all.
    pub(crate) kinds: Option<Arc<[String]>>,
    /// The kinds whose jobs get a lease each.
    pub(crate) alone: Arc<[String]>,
    pub(crate) slots: usize,
    pub(crate) lease: Duration,
    pub(crate) poll: Duration,
    /// For how long jobs may wait behind slow ones.
    pub(crate) hold_for: Duration,
    pub(crate) backoff: Backoff,
    pub(crate) deadline: Duration,
    /// Takes out of error texts what must not be kept.
    pub(crate) redact: Option<Redact>,
    pub(crate) segment_bytes: i64,
    /// After how many outages in a row a breaker opens.
    pub(crate) trip_after: u32,
    pub(crate) flood: Option<Flood>,
}

/// A hook that cleans an error text.
pub(crate) type Redact = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// A channel that nothing is ever sent on: its end is the signal.
pub(crate) type Ended = Receiver<std::convert::Infallible>;

/// Ends the channel at most once.
#[derive(Debug)]
pub(crate) struct End(Mutex<Option<Sender<std::convert::Infallible>>>);

impl End {
    pub(crate) fn new() -> (End, Ended) {
        let (sender, ended) = bounded(0);
        (End(Mutex::new(Some(sender))), ended)
    }

    pub(crate) fn end(&self) {
        lock(&self.0).take();
    }

    pub(crate) fn is_ended(&self) -> bool {
        lock(&self.0).is_none()
    }
}

/// A mutex whose content is good in any state that a panic could leave it in.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the threads of a worker share.
pub(crate) struct State {
    pub(crate) config: Config,
    pub(crate) settler: Settler,
    /// Ends when the worker is to stop: nothing new is claimed or started.
    pub(crate) stopping: End,
    pub(crate) stop: Ended,
    pub(crate) trust: Trust,
    pub(crate) gates: Gates,
    /// The flood guard; `None`: there is none.
    pub(crate) flood: Mutex<Option<Flood>>,
    pub(crate) counts: Counters,
    /// Why the worker stops by itself, if it does.
    pub(crate) failure: OnceLock<String>,
    /// The leases that this process knows it holds.
    pub(crate) held: Mutex<HashSet<LeaseId>>,
    /// The slots and what they run.
    pub(crate) seats: Mutex<Vec<Arc<Seat>>>,
    /// The segment that new jobs go to, as of the last look at the ring.
    segment: AtomicI16,
    /// How many other workers claimed the same jobs then.
    others: AtomicI64,
    /// Notifications of jobs so far.
    told: AtomicU64,
    /// Jobs claimed and not finished.
    in_hand: AtomicUsize,
    /// Jobs that are being asked for.
    asked: AtomicUsize,
    /// The usual run time of a job, in nanoseconds, or [`UNKNOWN`].
    run_time: AtomicU64,
    /// The lease of the job that lost a worker before and runs here; it is alone in it. Until the
    /// database knows how it ended no other is taken: a crash would count against it too.
    pub(crate) suspect: Mutex<Option<LeaseId>>,
    /// Told when there may be room for more jobs.
    room: Sender<()>,
}

impl State {
    pub(crate) fn new(mut config: Config, settler: Settler) -> (State, Receiver<()>) {
        let (stopping, stop) = End::new();
        let (room, has_room) = bounded(1);
        let gates = Gates::new(
            config.queue.name(),
            config.trip_after,
            config.handlers.dependencies(),
        );
        let flood = Mutex::new(config.flood.take());
        let state = State {
            config,
            settler,
            stopping,
            stop,
            trust: Trust::new(),
            gates,
            flood,
            counts: Counters::default(),
            failure: OnceLock::new(),
            held: Mutex::default(),
            seats: Mutex::default(),
            segment: AtomicI16::new(0),
            others: AtomicI64::new(0),
            told: AtomicU64::new(0),
            in_hand: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
            run_time: AtomicU64::new(UNKNOWN),
            suspect: Mutex::default(),
            room,
        };
        (state, has_room)
    }

    pub(crate) fn queue(&self) -> &str {
        self.config.queue.name()
    }

    pub(crate) fn in_hand(&self) -> usize {
        self.in_hand.load(Ordering::Relaxed)
    }

    /// How many jobs to claim now. 0: none.
    pub(crate) fn demand(&self) -> usize {
        let run_time = Duration::from_nanos(self.run_time.load(Ordering::Relaxed));
        let coming = self.in_hand() + self.asked.load(Ordering::Relaxed);
        demand(wanted(self.config.slots, run_time), coming)
    }

    /// Asks for jobs; until the answer is here, nobody else asks for them, too.
    pub(crate) fn asking<T>(&self, jobs: usize, ask: impl FnOnce() -> T) -> T {
        self.asked.fetch_add(jobs, Ordering::Relaxed);
        let answer = ask();
        self.asked.fetch_sub(jobs, Ordering::Relaxed);
        answer
    }

    /// Where a job is that has just come, unless the ring has turned since the last look.
    pub(crate) fn segment(&self) -> i16 {
        self.segment.load(Ordering::Relaxed)
    }

    /// How many other workers claim the same jobs, as far as is known.
    pub(crate) fn others(&self) -> i64 {
        self.others.load(Ordering::Relaxed)
    }

    /// Takes note of where new jobs go, and of how many other workers claim them.
    pub(crate) fn knows(&self, segment: i16, others: i64) {
        self.segment.store(segment, Ordering::Relaxed);
        self.others.store(others, Ordering::Relaxed);
    }

    /// How many notifications of jobs have come.
    pub(crate) fn told(&self) -> u64 {
        self.told.load(Ordering::Relaxed)
    }

    /// Takes note of notifications of jobs.
    pub(crate) fn tell(&self, notifications: u64) {
        self.told.fetch_add(notifications, Ordering::Relaxed);
    }

    /// Takes note that jobs turn out to be slow, before they have ended: the usual run time is no
    /// less than this.
    pub(crate) fn runs_for(&self, ran: Duration) {
        let nanos = u64::try_from(ran.as_nanos()).unwrap_or(u64::MAX);
        self.run_time.fetch_max(nanos, Ordering::Relaxed);
    }

    /// Takes note of jobs that were claimed.
    pub(crate) fn took(&self, jobs: usize) {
        self.in_hand.fetch_add(jobs, Ordering::Relaxed);
    }

    /// Takes note of a job that left the slots; `ran` for how long, if it ran.
    pub(crate) fn finished(&self, ran: Option<Duration>) {
        if let Some(ran) = ran {
            // An average that forgets: an eighth of it is the newest job. Slots may overwrite
            // each other's; it is an estimate.
            let nanos = u64::try_from(ran.as_nanos()).unwrap_or(u64::MAX);
            let average = match self.run_time.load(Ordering::Relaxed) {
                UNKNOWN => nanos,
                average => (average - average / 8).saturating_add(nanos / 8),
            };
            self.run_time.store(average, Ordering::Relaxed);
        }
        self.in_hand.fetch_sub(1, Ordering::Relaxed);
        // Full means that the fetcher is told already.
        _ = self.room.try_send(());
    }

    /// Takes note of jobs that were given back.
    pub(crate) fn count_released(&self, jobs: usize) {
        self.counts
            .released
            .fetch_add(jobs as u64, Ordering::Relaxed);
    }

    /// Forgets leases that ended, or are left to run out; answers the one of them that was a
    /// suspect's.
    pub(crate) fn forget(&self, leases: &[LeaseId]) -> Option<LeaseId> {
        let mut held = lock(&self.held);
        for lease in leases {
            held.remove(lease);
        }
        lock(&self.suspect).take_if(|suspect| leases.contains(suspect))
    }

    /// Whether a slot still works: one that was replaced does not count, it may never end.
    pub(crate) fn has_busy_slots(&self) -> bool {
        let replaced = |seat: &Seat| {
            lock(&seat.running)
                .as_ref()
                .is_some_and(|running| running.signal.replaced.load(Ordering::Relaxed))
        };
        lock(&self.seats).iter().any(|seat| !replaced(seat))
    }

    /// Says what is wrong with the database. It is tried again, unless no patience mends it: then the
    /// worker stops.
    pub(crate) fn complain(&self, error: &Error) {
        if error.is_of_a_pooler() {
            self.fail(error.to_string());
        } else if error.is_unavailable() {
            log::warn!("queue `{}`: {error}; trying again", self.queue());
        } else {
            log::error!("queue `{}`: {error:?}; trying again", self.queue());
        }
    }

    /// Stops the worker because of a trouble that it cannot overcome.
    pub(crate) fn fail(&self, why: String) {
        log::error!("worker of queue `{}` stops: {why}", self.queue());
        _ = self.failure.set(why);
        self.stopping.end();
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("queue", &self.queue())
            .finish_non_exhaustive()
    }
}

/// A slot, and the job that it runs.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    pub(crate) running: Mutex<Option<Running>>,
}

/// A job that runs.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) lease: LeaseId,
    pub(crate) facts: Facts,
    pub(crate) started: Instant,
    pub(crate) deadline: Duration,
    pub(crate) backoff: Backoff,
    pub(crate) overrun: Overrun,
    pub(crate) signal: Arc<Signal>,
}

/// What follows when a handler overruns its deadline; in both cases its slot is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overrun {
    /// The job is judged without it.
    GiveAway,
    /// Its own transaction holds the lease: whatever that comes to is what counts.
    Await,
}

/// Until when the worker may believe that its leases are its own, by its monotonic clock.
///
/// Counted from the moment a renewal was *sent*, less a tenth: the database gives the leases
/// away later than that.
#[derive(Debug)]
pub(crate) struct Trust {
    origin: Instant,
    until_ms: AtomicU64,
}

impl Trust {
    fn new() -> Trust {
        Trust {
            origin: Instant::now(),
            until_ms: AtomicU64::new(0),
        }
    }

    pub(crate) fn renewed(&self, sent_at: Instant, lease: Duration) {
        let until = sent_at.saturating_duration_since(self.origin) + lease * 9 / 10;
        self.until_ms.store(
            u64::try_from(until.as_millis()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
    }

    pub(crate) fn holds(&self, now: Instant) -> bool {
        let until = Duration::from_millis(self.until_ms.load(Ordering::Relaxed));
        now.saturating_duration_since(self.origin) < until
    }
}

/// What the worker has done since it started.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) done: AtomicU64,
    pub(crate) retried: AtomicU64,
    pub(crate) snoozed: AtomicU64,
    pub(crate) outages: AtomicU64,
    pub(crate) dead: AtomicU64,
    pub(crate) released: AtomicU64,
    pub(crate) lost: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self) -> Counts {
        Counts {
            done: self.done.load(Ordering::Relaxed),
            retried: self.retried.load(Ordering::Relaxed),
            snoozed: self.snoozed.load(Ordering::Relaxed),
            outages: self.outages.load(Ordering::Relaxed),
            dead: self.dead.load(Ordering::Relaxed),
            released: self.released.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
        }
    }
}

/// What a worker has done since it started, each counted when the database has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Jobs done.
    pub done: u64,
    /// Attempts that failed and will be followed by another.
    pub retried: u64,
    /// Jobs put off by their handlers.
    pub snoozed: u64,
    /// Attempts that met an outage and were given back.
    pub outages: u64,
    /// Jobs that became dead letters.
    pub dead: u64,
    /// Jobs given back, unrun or cut off by a stop.
    pub released: u64,
    /// Results refused because the lease was lost: another worker has the job.
    pub lost: u64,
}
