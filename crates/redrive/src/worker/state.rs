//! Holds what the threads of a worker share about one of its queues.

mod demand;
mod held;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::job::backoff::Backoff;
use crate::job::job::JobId;
use crate::pipeline::claim::{ClaimedJob, LeaseId, WorkerIdentity};
use crate::pipeline::queue::Queue;
use crate::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Instant, Mutex};
use crate::worker::breaker_state::LocalBreakers;
use crate::worker::gathering::Gathering;
use crate::worker::latch::lock;
use crate::worker::lease_trust::LeaseTrust;
use crate::worker::observer::Observer;
use crate::worker::registry::Handlers;
use crate::worker::shared::Shared;
use crate::worker::slots::{SlotUser, Slots};
use crate::worker::stats::Counters;
use held::HeldLease;

/// No job has ended yet. Counts as slow, so that the first claim takes one job per slot.
const UNKNOWN: u64 = u64::MAX;

/// The settings of a worker for a queue.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) queue: Queue,
    pub(crate) lease: Duration,
    pub(crate) poll: Duration,
    /// How long jobs may wait behind slow ones.
    pub(crate) hold_for: Duration,
    pub(crate) backoff: Backoff,
    pub(crate) deadline: Duration,
    /// How long to keep finished jobs. `None`: not at all.
    pub(crate) keep_done: Option<Duration>,
    pub(crate) hooks: Hooks,
    /// How long no live worker must have handled a kind before its ready jobs die. `None`: they wait.
    pub(crate) unhandled_after: Option<Duration>,
    /// How long a ready job must have waited before its priority rises, and to which. `None`: it does not.
    pub(crate) age_priorities: Option<(Duration, i16)>,
}

/// What the program wants to do with the errors and the ends of attempts.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    /// Removes sensitive data from error texts.
    pub(crate) redact: Option<Redact>,
    /// Whether log lines have the messages of errors.
    pub(crate) logs_messages: bool,
    /// Sees every attempt.
    pub(crate) observer: Option<Observer>,
}

/// A hook that redacts an error text.
pub(crate) type Redact = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// The state that the threads of a worker share.
pub(crate) struct State {
    /// Its place among those of the worker.
    pub(crate) place: usize,
    /// The place of the first one with its slots.
    pub(crate) pool: usize,
    pub(crate) config: Config,
    pub(crate) handlers: Handlers,
    /// The kinds to claim. `None`: all.
    pub(crate) kinds: Option<Arc<[String]>>,
    /// The kinds whose jobs get a lease each.
    pub(crate) alone: Arc<[String]>,
    /// The kinds whose jobs run together.
    pub(crate) batched: Arc<[String]>,
    pub(crate) identity: WorkerIdentity,
    pub(crate) shared: Arc<Shared>,
    pub(crate) trust: LeaseTrust,
    pub(crate) breakers: LocalBreakers,
    pub(crate) counts: Counters,
    /// The leases that this process knows it holds.
    pub(crate) held: Mutex<HashMap<LeaseId, HeldLease>>,
    /// The leased jobs that operators cancelled.
    cancelled: Mutex<HashSet<JobId>>,
    /// Whether there are any, so that a slot need not look.
    has_cancelled: AtomicBool,
    /// The slots and their jobs, which may be those of several queues.
    pub(crate) slots: Arc<Slots>,
    /// What this queue uses of them.
    pub(crate) user: Arc<SlotUser>,
    /// The number of other workers that claim the same jobs, as of the last full batch.
    pub(crate) other_workers: AtomicI64,
    /// Whether live workers of the queue have another version, as of the last renewal.
    pub(crate) sees_other_version: AtomicBool,
    /// The number of notifications received.
    notifications: AtomicU64,
    /// Verdicts that are not written yet.
    unwritten: AtomicUsize,
    /// The batches that are being gathered. `None`: there is no batch handler.
    pub(crate) gathering: Option<Mutex<Gathering<ClaimedJob>>>,
    /// The jobs that would fill them.
    missing: AtomicUsize,
    /// The size of the largest batches of the kinds in the last claim. 0: it had no such job.
    batch_size: AtomicUsize,
    /// Jobs being claimed.
    pub(super) requested: AtomicUsize,
    /// The average run time in nanoseconds, or [`UNKNOWN`].
    run_time: AtomicU64,
    /// Whether there may be jobs that the fetcher has not looked for, and when a delayed job is due that it does not know of.
    news: Mutex<(bool, Option<Instant>)>,
}

impl State {
    pub(crate) fn new(
        place: usize,
        config: Config,
        handlers: Handlers,
        identity: WorkerIdentity,
        shared: Arc<Shared>,
        breakers: LocalBreakers,
        (pool, slots, user): (usize, Arc<Slots>, Arc<SlotUser>),
    ) -> State {
        // With other handlers, the first claim shows whether the queue has jobs for batches.
        let batch_size = handlers.only_batches_of().unwrap_or(0);
        let gathering = handlers.rules().next().is_some();
        State {
            place,
            pool,
            config,
            kinds: handlers.claimed_kinds(),
            alone: handlers.kinds_in_transactions(),
            batched: handlers.rules().map(|(kind, _)| kind.to_owned()).collect(),
            gathering: gathering.then(|| Mutex::new(Gathering::new())),
            handlers,
            identity,
            shared,
            trust: LeaseTrust::new(),
            breakers,
            counts: Counters::default(),
            held: Mutex::default(),
            cancelled: Mutex::default(),
            has_cancelled: AtomicBool::new(false),
            slots,
            user,
            other_workers: AtomicI64::new(0),
            sees_other_version: AtomicBool::new(false),
            notifications: AtomicU64::new(0),
            unwritten: AtomicUsize::new(0),
            missing: AtomicUsize::new(0),
            batch_size: AtomicUsize::new(batch_size),
            requested: AtomicUsize::new(0),
            run_time: AtomicU64::new(UNKNOWN),
            news: Mutex::default(),
        }
    }

    pub(crate) fn queue(&self) -> &str {
        self.config.queue.name()
    }

    /// Whether it speaks for all that have its slots.
    pub(crate) fn is_first_of_pool(&self) -> bool {
        self.pool == self.place
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.user.in_flight.load(Ordering::Relaxed)
    }

    /// Returns the average run time.
    fn run_time(&self) -> Duration {
        Duration::from_nanos(self.run_time.load(Ordering::Relaxed))
    }

    /// Returns how many jobs are being claimed.
    pub(crate) fn requested(&self) -> usize {
        self.requested.load(Ordering::Relaxed)
    }

    /// Returns the number of notifications received.
    pub(crate) fn notifications(&self) -> u64 {
        self.notifications.load(Ordering::Relaxed)
    }

    /// Counts a notification of new jobs, and wakes the fetcher.
    pub(crate) fn notified(&self) {
        self.notifications.fetch_add(1, Ordering::Relaxed);
        self.look_for_jobs();
    }

    /// Raises the average run time to at least `ran`, because a job has already run that long.
    pub(crate) fn raise_run_time(&self, ran: Duration) {
        let nanos = u64::try_from(ran.as_nanos()).unwrap_or(u64::MAX);
        self.run_time.fetch_max(nanos, Ordering::Relaxed);
    }

    /// Counts the run time of a job or a batch.
    pub(crate) fn count_run_time(&self, ran: Duration) {
        // A moving average with a weight of an eighth. Slots may overwrite each other; it is an
        // estimate.
        let nanos = u64::try_from(ran.as_nanos()).unwrap_or(u64::MAX);
        let average = match self.run_time.load(Ordering::Relaxed) {
            UNKNOWN => nanos,
            average => (average - average / 8).saturating_add(nanos / 8),
        };
        self.run_time.store(average, Ordering::Relaxed);
    }

    /// Counts a job or a batch that left the slots, with its run time if it ran.
    pub(crate) fn count_finished(&self, ran: Option<Duration>) {
        if let Some(ran) = ran {
            self.count_run_time(ran);
        }
        self.user.in_flight.fetch_sub(1, Ordering::Relaxed);
        let are_stuck = &self.slots.are_stuck;
        if are_stuck.load(Ordering::Relaxed) && are_stuck.swap(false, Ordering::Relaxed) {
            // Another queue may have waited for the slot.
            self.shared.room.ring();
        }
        self.wake_fetcher();
    }

    /// Counts released jobs.
    pub(crate) fn count_released(&self, jobs: usize) {
        self.counts
            .released
            .fetch_add(jobs as u64, Ordering::Relaxed);
    }

    /// Lets the renewer read the breakers, pauses and limits.
    pub(crate) fn note_stale_gates(&self) {
        self.shared.stale_gates.store(true, Ordering::Relaxed);
    }

    /// Wakes the fetcher, because there may be jobs.
    pub(crate) fn look_for_jobs(&self) {
        lock(&self.news).0 = true;
        self.shared.jobs.ring();
    }

    /// Wakes the fetcher, because a delayed job is due at this time.
    pub(crate) fn note_due(&self, at: Instant) {
        let mut news = lock(&self.news);
        news.1 = news.1.into_iter().chain([at]).min();
        drop(news);
        self.shared.jobs.ring();
    }

    /// Whether the fetcher has been woken since it last took the news.
    pub(crate) fn has_news(&self) -> bool {
        *lock(&self.news) != (false, None)
    }

    /// Takes why the fetcher was woken: whether there may be jobs, and when a delayed job is due.
    pub(crate) fn take_news(&self) -> (bool, Option<Instant>) {
        std::mem::take(&mut *lock(&self.news))
    }

    /// Whether a slot is busy. A replaced slot does not count, because it may never end.
    pub(crate) fn has_busy_slots(&self) -> bool {
        let slots = self.slots.all();
        slots.iter().any(|slot_state| !slot_state.is_replaced())
    }

    /// Logs a database error that is retried after `retry_in`.
    pub(crate) fn report_error(&self, error: &Error, retry_in: Duration) {
        let level = self.shared.outage_log.level(error);
        log::log!(level, "{self}: retrying in {retry_in:?}: {error:#}");
    }

    /// Stops the worker after an error that it cannot recover from.
    pub(crate) fn fail(&self, cause: String) {
        log::error!("{self}: the worker failed and is stopping: {cause}");
        _ = self.shared.failure.set((self.queue().to_owned(), cause));
        self.shared.stopping.set();
    }
}

/// The prefix of a worker's log lines: `queue=orders worker=4f2a`.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.identity.id.0.simple().to_string();
        write!(f, "queue={} worker={}", self.queue(), &id[..4])
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("queue", &self.queue())
            .finish_non_exhaustive()
    }
}
