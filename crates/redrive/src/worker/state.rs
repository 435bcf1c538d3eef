//! Holds what the threads of a worker share about one of its queues.

mod demand;
mod held;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::db::pool_share::Suspects;
use crate::error::{Error, Result};
use crate::job::backoff::Backoff;
use crate::job::job::JobId;
use crate::pipeline::claim::LeaseId;
use crate::pipeline::queue::Queue;
use crate::pipeline::settlement::WorkerIdentity;
use crate::sync::atomic::{AtomicBool, AtomicI16, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use crate::sync::channel::{Receiver, Sender, bounded};
use crate::sync::{Instant, Mutex};
use crate::worker::breaker_state::LocalBreakers;
use crate::worker::handler_table::HandlerTable;
use crate::worker::latch::{Latch, LatchReceiver, lock};
use crate::worker::lease_trust::LeaseTrust;
use crate::worker::observer::Observer;
use crate::worker::outage_log::OutageLog;
use crate::worker::passed_groups::PassedGroups;
use crate::worker::slots::{SlotUser, Slots};
use crate::worker::stats::Counters;
use held::HeldLease;

/// No job has ended yet. Counts as slow, so that the first claim takes one job per slot.
const UNKNOWN: u64 = u64::MAX;

/// The checked settings of a worker.
pub(crate) struct Config {
    pub(crate) queue: Queue,
    pub(crate) handlers: HandlerTable,
    /// The kinds to claim. `None`: all.
    pub(crate) kinds: Option<Arc<[String]>>,
    /// The kinds of all states of the queue, in the one that looks for jobs of others. `None`: all, or it does not look.
    pub(crate) handled: Option<Arc<[String]>>,
    /// The kinds that other states of the queue claim.
    pub(crate) left_out: Vec<String>,
    /// The kinds whose jobs get a lease each.
    pub(crate) alone: Arc<[String]>,
    /// The kinds whose jobs have no followers in their group and follow no other job.
    pub(crate) single: Arc<[String]>,
    pub(crate) lease: Duration,
    pub(crate) poll: Duration,
    /// How long jobs may wait behind slow ones.
    pub(crate) hold_for: Duration,
    pub(crate) backoff: Backoff,
    pub(crate) deadline: Duration,
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
    pub(crate) config: Config,
    pub(crate) identity: WorkerIdentity,
    /// Set when the worker must claim and start nothing more.
    pub(crate) stopping: Arc<Latch>,
    pub(crate) trust: LeaseTrust,
    /// Those of the queue, which all its states share.
    pub(crate) breakers: Arc<LocalBreakers>,
    pub(crate) counts: Counters,
    /// Whether the database did not answer a claim during the stop.
    pub(crate) claim_unanswered: AtomicBool,
    pub(crate) outage_log: Arc<OutageLog>,
    /// When a stopping worker must have ended. Its calls take no longer.
    pub(crate) end_by: OnceLock<Instant>,
    /// Why the worker stopped on an error.
    failure: OnceLock<String>,
    /// The leases that this process knows it holds.
    pub(crate) held: Mutex<HashMap<LeaseId, HeldLease>>,
    /// Those of all workers that share the pool.
    pub(crate) suspects: Arc<Suspects>,
    /// The leased jobs that operators cancelled.
    cancelled: Mutex<HashSet<JobId>>,
    /// Whether there are any, so that a slot need not look.
    has_cancelled: AtomicBool,
    /// The slots and their jobs, which may be those of several queues.
    pub(crate) slots: Arc<Slots>,
    /// What this queue uses of them.
    pub(crate) user: Arc<SlotUser>,
    pub(crate) ring: Arc<Ring>,
    /// The number of other workers that claim the same jobs, as of the last full batch.
    pub(crate) other_workers: AtomicI64,
    /// Whether live workers of the queue have another version, as of the last renewal.
    pub(crate) sees_other_version: AtomicBool,
    /// The number of notifications received.
    notifications: AtomicU64,
    /// The groups whose turn has just passed on.
    pub(crate) passed_groups: PassedGroups,
    /// Verdicts that are not written yet, except those that the database rejects.
    unwritten: AtomicUsize,
    /// The jobs that would fill the batches that are being gathered.
    missing: AtomicUsize,
    /// The size of the largest batches of the kinds in the last claim. 0: it had no such job.
    batch_size: AtomicUsize,
    /// Jobs being claimed.
    requested: AtomicUsize,
    /// The average run time in nanoseconds, or [`UNKNOWN`].
    run_time: AtomicU64,
    /// Whether there may be jobs that the fetcher has not looked for.
    has_work: AtomicBool,
    /// When the next delayed job is due that the fetcher does not know of.
    due_at: Mutex<Option<Instant>>,
    bells: Bells,
    /// Whether the watchdog waits for jobs.
    watchdog_rests: AtomicBool,
    /// Whether the renewer must read the breakers, pauses and limits, because what is known of them is out of date.
    stale_gates: AtomicBool,
}

/// What wakes the threads of a worker. A full channel means that the thread will look anyway.
#[derive(Clone)]
struct Bells {
    /// Wakes the fetcher when there may be room for jobs.
    room: Sender<()>,
    /// Wakes the fetcher when there may be jobs.
    jobs: Sender<()>,
    /// Wakes the watchdog when there are jobs.
    busy: Sender<()>,
    /// Wakes the chores when a schedule has changed.
    schedules: Sender<()>,
}

/// The other ends of the bells.
pub(crate) struct Woken {
    pub(crate) room: Receiver<()>,
    pub(crate) jobs: Receiver<()>,
    pub(crate) busy: Receiver<()>,
    pub(crate) schedules: Receiver<()>,
}

/// What the queues of a worker share.
#[derive(Clone)]
pub(crate) struct Shared {
    /// Set when the worker must claim and start nothing more.
    pub(crate) stopping: Arc<Latch>,
    pub(crate) stop: LatchReceiver,
    outage_log: Arc<OutageLog>,
    suspects: Arc<Suspects>,
    ring: Arc<Ring>,
    bells: Bells,
}

/// The ring of segments, as of its last check.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    /// The segment of new jobs.
    pub(crate) segment: AtomicI16,
    /// The size of the ready jobs of all queues, with dead rows.
    pub(crate) ready_bytes: AtomicI64,
}

impl Shared {
    /// Returns what the queues of a new worker share.
    pub(crate) fn new(suspects: &Arc<Suspects>) -> (Shared, Woken) {
        let (stopping, stop) = Latch::new();
        let ((room, has_room), (jobs, has_jobs)) = (bounded(1), bounded(1));
        let ((busy, is_busy), (schedules, have_changed)) = (bounded(1), bounded(1));
        suspects.wake(jobs.clone());
        let shared = Shared {
            stopping: Arc::new(stopping),
            stop,
            outage_log: Arc::default(),
            suspects: Arc::clone(suspects),
            ring: Arc::default(),
            bells: Bells {
                room,
                jobs,
                busy,
                schedules,
            },
        };
        let woken = Woken {
            room: has_room,
            jobs: has_jobs,
            busy: is_busy,
            schedules: have_changed,
        };
        (shared, woken)
    }
}

impl State {
    pub(crate) fn new(
        config: Config,
        identity: WorkerIdentity,
        shared: Shared,
        breakers: Arc<LocalBreakers>,
        (slots, user): (Arc<Slots>, Arc<SlotUser>),
    ) -> State {
        // With other handlers, the first claim shows whether the queue has jobs for batches.
        let batch_size = config.handlers.only_batches_of().unwrap_or(0);
        State {
            config,
            identity,
            stopping: shared.stopping,
            trust: LeaseTrust::new(),
            breakers,
            counts: Counters::default(),
            claim_unanswered: AtomicBool::new(false),
            outage_log: shared.outage_log,
            end_by: OnceLock::new(),
            failure: OnceLock::new(),
            held: Mutex::default(),
            suspects: shared.suspects,
            cancelled: Mutex::default(),
            has_cancelled: AtomicBool::new(false),
            slots,
            user,
            ring: shared.ring,
            other_workers: AtomicI64::new(0),
            sees_other_version: AtomicBool::new(false),
            notifications: AtomicU64::new(0),
            passed_groups: PassedGroups::default(),
            unwritten: AtomicUsize::new(0),
            missing: AtomicUsize::new(0),
            batch_size: AtomicUsize::new(batch_size),
            requested: AtomicUsize::new(0),
            run_time: AtomicU64::new(UNKNOWN),
            has_work: AtomicBool::new(false),
            due_at: Mutex::default(),
            bells: shared.bells,
            watchdog_rests: AtomicBool::new(false),
            stale_gates: AtomicBool::new(false),
        }
    }

    pub(crate) fn queue(&self) -> &str {
        self.config.queue.name()
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

    /// Runs a claim of this many jobs, which no other fetcher requests meanwhile.
    pub(crate) fn requesting<T>(&self, jobs: usize, ask: impl FnOnce() -> Result<T>) -> Result<T> {
        self.requested.fetch_add(jobs, Ordering::Relaxed);
        let answer = ask();
        self.requested.fetch_sub(jobs, Ordering::Relaxed);
        if answer.as_ref().is_err_and(Error::is_unavailable) && self.stopping.is_set() {
            self.claim_unanswered.store(true, Ordering::Relaxed);
        }
        answer
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

    /// Counts claimed jobs.
    pub(crate) fn count_claimed(&self, jobs: usize) {
        self.user.in_flight.fetch_add(jobs, Ordering::SeqCst);
    }

    /// Wakes the watchdog if it rests, after jobs were counted.
    pub(crate) fn wake_watchdog(&self) {
        if self.watchdog_rests.swap(false, Ordering::SeqCst) {
            _ = self.bells.busy.try_send(());
        }
    }

    /// Returns whether the watchdog may rest until it is woken: there are no jobs. It says so before it
    /// looks, so that jobs counted afterwards wake it.
    pub(crate) fn rest_watchdog(&self) -> bool {
        self.watchdog_rests.store(true, Ordering::SeqCst);
        let rests = self.user.in_flight.load(Ordering::SeqCst) == 0;
        if !rests {
            self.watchdog_rests.store(false, Ordering::SeqCst);
        }
        rests
    }

    /// Counts a job or a batch that left the slots, with its run time if it ran.
    pub(crate) fn count_finished(&self, ran: Option<Duration>) {
        if let Some(ran) = ran {
            // A moving average with a weight of an eighth. Slots may overwrite each other; it is an
            // estimate.
            let nanos = u64::try_from(ran.as_nanos()).unwrap_or(u64::MAX);
            let average = match self.run_time.load(Ordering::Relaxed) {
                UNKNOWN => nanos,
                average => (average - average / 8).saturating_add(nanos / 8),
            };
            self.run_time.store(average, Ordering::Relaxed);
        }
        self.user.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.wake_fetcher();
    }

    /// Counts released jobs.
    pub(crate) fn count_released(&self, jobs: usize) {
        self.counts
            .released
            .fetch_add(jobs as u64, Ordering::Relaxed);
    }

    /// Lets the renewer read the breakers, pauses and limits. Only that thread does: of two that read, the one that read
    /// first could be the last to record what it knows, and a pause would be forgotten.
    pub(crate) fn note_stale_gates(&self) {
        self.stale_gates.store(true, Ordering::Relaxed);
    }

    /// Takes that request.
    pub(crate) fn take_stale_gates(&self) -> bool {
        self.stale_gates.swap(false, Ordering::Relaxed)
    }

    /// Wakes the chores.
    pub(crate) fn look_for_schedules(&self) {
        _ = self.bells.schedules.try_send(());
    }

    /// Wakes the fetcher, because there may be jobs.
    pub(crate) fn look_for_jobs(&self) {
        self.has_work.store(true, Ordering::SeqCst);
        _ = self.bells.jobs.try_send(());
    }

    /// Wakes the fetcher, because a delayed job is due at this time.
    pub(crate) fn note_due(&self, at: Instant) {
        let mut due_at = lock(&self.due_at);
        *due_at = due_at.into_iter().chain([at]).min();
        drop(due_at);
        _ = self.bells.jobs.try_send(());
    }

    /// Whether the fetcher has been woken since it last took the news.
    pub(crate) fn has_news(&self) -> bool {
        self.has_work.load(Ordering::SeqCst) || lock(&self.due_at).is_some()
    }

    /// Takes why the fetcher was woken: whether there may be jobs, and when a delayed job is due.
    pub(crate) fn take_news(&self) -> (bool, Option<Instant>) {
        let has_work = self.has_work.swap(false, Ordering::SeqCst);
        (has_work, lock(&self.due_at).take())
    }

    /// Whether a slot is busy. A replaced slot does not count, because it may never end.
    pub(crate) fn has_busy_slots(&self) -> bool {
        let slots = self.slots.all();
        slots.iter().any(|slot_state| !slot_state.is_replaced())
    }

    /// Logs a database error that is retried after `retry_in`. If a pooler is not configured, the
    /// worker fails instead, because retrying cannot help.
    pub(crate) fn report_error(&self, error: &Error, retry_in: Duration) {
        if error.needs_pooler_setting() {
            return self.fail(error.to_string());
        }
        let level = self.outage_log.level(error);
        log::log!(level, "{self}: retrying in {retry_in:?}: {error:#}");
    }

    /// Why the worker stopped on an error of this queue.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Stops the worker after an error that it cannot recover from.
    pub(crate) fn fail(&self, cause: String) {
        log::error!("{self}: the worker failed and is stopping: {cause}");
        _ = self.failure.set(cause);
        self.stopping.set();
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
