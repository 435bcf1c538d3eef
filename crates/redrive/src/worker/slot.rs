//! Runs handlers on a thread, one job at a time.
//!
//! Slots take jobs from one place: slow jobs one by one, so that none waits behind another while a
//! slot is free, and fast ones in chunks. Their verdicts go to the settler in chunks, too, because
//! waking a thread for each fast job costs more than the job. If a job of a chunk turns out to be slow,
//! the watchdog displaces the jobs behind it to the other slots. The jobs of a batch run together.

use std::cell::Cell;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use crate::db::spawn::spawn;
use crate::error::Result;
use crate::job::error_report::ErrorReport;
use crate::job::job::JobMeta;
use crate::pipeline::claim::demand::SLOW;
use crate::pipeline::claim::{ClaimedJob, LeaseId};
use crate::pipeline::outcome::{FailedBy, Outcome};
use crate::pipeline::settlement::Settlement;
use crate::sync::Instant;
use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::channel::Sender;
use crate::worker::breaker_state::AttemptEnd;
use crate::worker::conclusion;
use crate::worker::handlers::{Call, Handler, HandlerOptions, JobEnd};
use crate::worker::latch::lock;
use crate::worker::observer::{self, Attempt};
use crate::worker::own_transaction::{self, AttemptResult};
use crate::worker::settler::Message;
use crate::worker::slot_state::{Chunk, Run, RunningJob, SlotState, TakenBy};
use crate::worker::slots::Slots;
#[cfg(feature = "tracing")]
use crate::worker::span;
use crate::worker::state::State;
use crate::worker::threads::supervised;

/// The maximum number of verdicts of a chunk. A job that runs for [`SLOW`] ends its chunk, so that a
/// full chunk delays no verdict by more than 32 ms. The watchdog sends the chunk of a slot that runs a
/// longer job.
const VERDICTS_IN_CHUNK: usize = 32;

/// A queue of a worker, and the way of its verdicts.
pub(crate) struct SlotContext {
    pub(crate) state: Arc<State>,
    pub(crate) messages: Sender<(usize, Message)>,
}

impl SlotContext {
    /// Sends a message to the settler. It outlives the slots unless the worker was dropped or the settler panicked. Then the
    /// lease expires and the job is retried.
    pub(crate) fn tell(&self, message: Message) {
        _ = self.messages.send((self.state.place, message));
    }
}

/// What the slots of a queue, or of several that share them, have in common.
#[derive(Clone)]
pub(crate) struct SlotPool {
    /// All queues of the worker.
    pub(crate) queues: Arc<[SlotContext]>,
    /// The place of the queue that speaks for the others of the pool.
    first: usize,
}

impl SlotPool {
    /// Returns the pools of the queues of a worker.
    pub(crate) fn all(queues: &Arc<[SlotContext]>) -> Vec<SlotPool> {
        let firsts = queues.iter().filter(|it| it.state.is_first_of_pool());
        let pools = firsts.map(|it| SlotPool {
            queues: Arc::clone(queues),
            first: it.state.place,
        });
        pools.collect()
    }

    pub(crate) fn state(&self) -> &Arc<State> {
        &self.queues[self.first].state
    }

    pub(crate) fn slots(&self) -> &Slots {
        &self.state().slots
    }

    /// Returns the queues that use these slots.
    pub(crate) fn users(&self) -> impl Iterator<Item = &SlotContext> {
        self.queues.iter().filter(|it| it.state.pool == self.first)
    }
}

/// Starts a slot.
pub(crate) fn start(pool: &SlotPool) -> Result<()> {
    let slot_state = Arc::new(SlotState::default());
    let number = pool.slots().add(&slot_state);
    let started = spawn(&format!("redrive-slot-{number}"), {
        let (pool, slot_state) = (pool.clone(), Arc::clone(&slot_state));
        move || {
            supervised(pool.state(), &format!("slot {number}"), || {
                work(&pool, &slot_state);
            });
            displace(&pool, &slot_state);
            send_verdicts(&pool, &slot_state);
            let abandoned = lock(&slot_state.running).clone();
            match abandoned {
                None => pool.slots().remove(&slot_state),
                // It panicked. A stop must find what it had started.
                Some(run) => run.abandon(),
            }
            pool.state().shared.left.ring();
        }
    });
    started.inspect_err(|_| pool.slots().remove(&slot_state))
}

/// Runs jobs until the channel closes, or until another slot replaced this one.
fn work(pool: &SlotPool, slot_state: &SlotState) {
    while run_next(pool, slot_state) == Some(true) {}
}

/// Runs the next job or batch. Returns whether the slot still has its place. `None`: there is no job left. Sends the
/// verdicts before it waits.
fn run_next(pool: &SlotPool, slot_state: &SlotState) -> Option<bool> {
    if let Some((queue, claimed)) = slot_state.next_job() {
        return Some(run(&pool.queues[queue], slot_state, [claimed]));
    }
    let jobs = &pool.slots().jobs;
    let (queue, chunk) = jobs.try_take().or_else(|| {
        send_verdicts(pool, slot_state);
        jobs.take()
    })?;
    let context = &pool.queues[queue];
    Some(match chunk {
        Chunk::OneByOne(jobs) => run(context, slot_state, slot_state.first_job(queue, jobs)),
        Chunk::Together(jobs) => run(context, slot_state, jobs),
    })
}

/// Runs a job or a batch, which counts as one job in flight. Returns `false` if another thread has taken the jobs.
fn run(
    context: &SlotContext,
    slot_state: &SlotState,
    jobs: impl IntoIterator<Item = ClaimedJob>,
) -> bool {
    let (state, started) = (&context.state, Instant::now());
    let no_time = Cell::new(None);
    let mut startable = jobs.into_iter().filter_map(|claimed| {
        let handler = startable(context, slot_state, &claimed, started);
        let handler = handler.map_err(|took| no_time.set(took)).ok()?;
        Some((handler, claimed))
    });
    let Some((handler, first)) = startable.next() else {
        state.count_finished(no_time.get());
        return true;
    };
    let others: Vec<ClaimedJob> = startable.map(|(_, claimed)| claimed).collect();
    let mut run = run_of(context, RunningJob::of(&first), &handler.options, started);
    run.others = others.iter().map(RunningJob::of).collect();
    let run = Arc::new(run);
    // Shown to the other threads before its handler runs. An operator may have cancelled a job that waited.
    *lock(&slot_state.running) = Some(Arc::clone(&run));
    for running in run.jobs().filter(|it| state.is_cancelled(it.meta.id)) {
        running.signal.cancel_by_operator();
    }
    if state.shared.stopping.is_set() {
        return leave_shown(context, slot_state, &run);
    }
    #[cfg(feature = "tracing")]
    let _span = span::enter(&run.first.meta, run.size());
    let attempted = match &handler.call {
        Call::Plain(call) => {
            let signals = run.jobs().map(|running| Arc::clone(&running.signal));
            let jobs = iter::once(first).chain(others);
            AttemptResult::Judge(call(&mut jobs.zip(signals)))
        }
        Call::InTransaction(call) => {
            let db = state.config.queue.database();
            // It may have waited for its connection.
            let may_start = |job: &ClaimedJob| {
                let now = Instant::now();
                may_start(state, job, now) && job.meta.expired(now).is_none()
            };
            own_transaction::attempt(&**call, first, &run, db, may_start)
        }
    };
    if !run.take(TakenBy::Slot) {
        *lock(&slot_state.running) = None;
        note_late(state, &run, &attempted);
        return false;
    }
    let (running, now) = (&run.first, Instant::now());
    match attempted {
        AttemptResult::Judge(ends) => {
            let is_done = |end: &JobEnd| end.as_ref().is_ok_and(Vec::is_empty);
            // A job whose follow-ups the database rejects runs again.
            if !ends.iter().all(is_done) {
                return_followers(context, &slot_state.take_followers());
            }
            for (running, end) in run.jobs().zip(ends) {
                conclude(context, slot_state, &run, running, end, now);
            }
            state.count_finished(Some(run.ran(now)));
        }
        AttemptResult::Settled => {
            if let Some(observer) = &state.config.hooks.observer {
                let (lease, meta, ran) = (running.lease, &running.meta, run.ran(now));
                let done = Settlement::done(lease, meta, ran, run.keep_done, now);
                observer::tell(observer, &Attempt::of(&done, None));
            }
            state.counts.done.fetch_add(1, Ordering::Relaxed);
            end_lease(context, &run, AttemptEnd::Done, now);
        }
        AttemptResult::Unstarted => leave(context, slot_state, &run),
        AttemptResult::Lost => {
            state.counts.lost.fetch_add(1, Ordering::Relaxed);
            end_lease(context, &run, AttemptEnd::Unrun, now);
        }
    }
    // A stop finds the job here or its verdict there.
    *lock(&slot_state.running) = None;
    true
}

/// Returns the handler of a job if it may start. Ends the job otherwise: one that expired took no time, so a claim may take
/// many like it.
fn startable<'a>(
    context: &'a SlotContext,
    slot_state: &SlotState,
    claimed: &ClaimedJob,
    now: Instant,
) -> Result<&'a Handler, Option<Duration>> {
    let state = &context.state;
    // A claim takes only kinds with a handler.
    let handler = state.handlers.of(&claimed.meta.kind);
    let handler = handler.filter(|_| may_start(state, claimed, now));
    let limit = claimed.meta.expired(now);
    if let (Some(handler), None) = (handler, limit) {
        return Ok(handler);
    }
    return_followers(context, &slot_state.take_followers());
    if let (Some(_), Some(limit)) = (handler, limit) {
        let run = run_of(context, RunningJob::of(claimed), &Arc::default(), now);
        let end = Err(expired(limit));
        conclude(context, slot_state, &run, &run.first, end, now);
        return Err(Some(Duration::ZERO));
    }
    return_unstarted(context, std::slice::from_ref(claimed));
    Err(None)
}

/// Whether nothing keeps a claimed job from starting: the leases may be lost, a breaker is open, the queue is paused, or the
/// token of the job is lost.
fn may_start(state: &State, claimed: &ClaimedJob, now: Instant) -> bool {
    let is_late = claimed.start_by.is_some_and(|by| now >= by);
    let kind = &claimed.meta.kind;
    !is_late && !state.breakers.stops(claimed.lease, kind, now) && state.trust.holds(now)
}

/// Describes the run of a job for the other threads.
fn run_of(
    context: &SlotContext,
    first: RunningJob,
    options: &Arc<HandlerOptions>,
    started: Instant,
) -> Run {
    let config = &context.state.config;
    Run {
        queue: context.state.place,
        started,
        deadline: options.deadline.unwrap_or(config.deadline),
        keep_done: options.keep_done.or(config.keep_done),
        options: Arc::clone(options),
        first,
        others: Vec::new(),
        taken: AtomicU8::new(0),
    }
}

/// Returns the jobs of a run that was just shown, because the worker stops.
///
/// The slot asks for that after it has shown its jobs, and a stop looks at the jobs that are shown after it has begun. So the
/// stop sees each job whose handler runs.
fn leave_shown(context: &SlotContext, slot_state: &SlotState, run: &Run) -> bool {
    let is_mine = run.take(TakenBy::Slot);
    if is_mine {
        leave(context, slot_state, run);
    }
    *lock(&slot_state.running) = None;
    is_mine
}

/// Returns the jobs of a run whose handler did not start.
fn leave(context: &SlotContext, slot_state: &SlotState, run: &Run) {
    return_followers(context, &slot_state.take_followers());
    return_unrun(
        context,
        run.jobs().map(|running| (running.lease, &running.meta)),
    );
    context.state.count_finished(None);
}

/// Records the end of a handler whose job another thread has taken. Only its transaction may still have settled
/// the job, because the database decides.
fn note_late(state: &State, run: &Run, attempted: &AttemptResult) {
    let job = run.first.meta.id;
    match attempted {
        AttemptResult::Settled => {
            state.counts.done.fetch_add(1, Ordering::Relaxed);
            log::info!("{state} job={job}: finished in its transaction while the worker stopped");
        }
        AttemptResult::Judge(..) | AttemptResult::Unstarted | AttemptResult::Lost => {
            let end = match run.is_overdue() {
                true => "its deadline",
                false => "the stop of its worker",
            };
            log::warn!("{state} job={job}: finished after {end}; result rejected");
        }
    }
}

/// Gives the waiting jobs of a slot to the others, because the slot runs a slow one or ends. The followers of its
/// job wait for their group again.
pub(crate) fn displace(pool: &SlotPool, slot_state: &SlotState) {
    let (queue, followers, turns) = slot_state.take_chunk();
    return_followers(&pool.queues[queue], &followers);
    // One by one, because the next one may be slow, too.
    let turns = turns.into_iter().map(|it| (queue, Chunk::OneByOne(it)));
    pool.slots().jobs.give_back(turns);
}

/// Sends the verdicts of a slot to the settler.
pub(crate) fn send_verdicts(pool: &SlotPool, slot_state: &SlotState) {
    settle(&pool.queues[pool.first], slot_state.take_verdicts());
}

fn settle(context: &SlotContext, verdicts: Vec<(usize, Settlement)>) {
    if !verdicts.is_empty() {
        context.tell(Message::Settled(verdicts));
    }
}

/// Forgets a lease that its handler's transaction ended, or found lost. The settler never heard of it.
fn end_lease(context: &SlotContext, run: &Run, end: AttemptEnd<'_>, now: Instant) {
    let (state, running) = (&context.state, &run.first);
    let lease = running.lease;
    state.forget(&[lease]);
    if running.meta.group.is_some() {
        // Its turn passes on.
        state.look_for_jobs();
    }
    record_end(context, lease, &running.meta.kind, end, now);
    state.count_finished(Some(run.ran(now)));
}

/// Returns the followers of a job that did not succeed or is slow. They share its lease, and each counts as a job in
/// flight.
///
/// They return together, and before the verdict on that job is sent: once it is settled, its letter may be redriven or
/// closed, and a later job of the group must not start before them.
fn return_followers(context: &SlotContext, followers: &[ClaimedJob]) {
    return_unstarted(context, followers);
    (0..followers.len()).for_each(|_| context.state.count_finished(None));
}

/// Returns jobs that no slot started, before their leases end. Those of one lease return together.
pub(crate) fn return_unstarted(context: &SlotContext, unstarted: &[ClaimedJob]) {
    return_unrun(context, unstarted.iter().map(|job| (job.lease, &job.meta)));
}

fn return_unrun<'a>(
    context: &SlotContext,
    jobs: impl Iterator<Item = (LeaseId, &'a Arc<JobMeta>)> + Clone,
) {
    let unrun = jobs.clone().map(|(lease, meta)| {
        context.state.count_unwritten();
        let unrun = Settlement::unrun(lease, meta, Duration::ZERO);
        (context.state.place, unrun)
    });
    settle(context, unrun.collect());
    for (lease, meta) in jobs {
        let (kind, now) = (&meta.kind, Instant::now());
        record_end(context, lease, kind, AttemptEnd::Unrun, now);
    }
}

/// Judges the end of an attempt, and adds the verdict to the chunk of its slot.
pub(crate) fn conclude(
    context: &SlotContext,
    slot_state: &SlotState,
    run: &Run,
    running: &RunningJob,
    end: JobEnd,
    now: Instant,
) {
    let (settlement, reports) = conclusion::conclude(&context.state, run, running, end, now);
    let verdicts = slot_state.add_verdict(context.state.place, settlement);
    if verdicts >= VERDICTS_IN_CHUNK || run.share(now) >= SLOW || !reports.is_empty() {
        settle(context, slot_state.take_verdicts());
    }
    for report in reports {
        context.tell(Message::Breaker(report));
    }
}

/// Records the end of an attempt without a verdict.
fn record_end(
    context: &SlotContext,
    lease: LeaseId,
    kind: &str,
    attempt: AttemptEnd<'_>,
    now: Instant,
) {
    for report in context.state.breakers.note(lease, kind, attempt, now) {
        context.tell(Message::Breaker(report));
    }
}

/// Returns the outcome of a job that was claimed later than `limit` after its enqueue.
pub(crate) fn expired(limit: Duration) -> Outcome {
    let message = format!("did not start within {limit:?} of its enqueue or its tick");
    Outcome::of(FailedBy::Expiry, ErrorReport::new("Expired", message, None))
}
