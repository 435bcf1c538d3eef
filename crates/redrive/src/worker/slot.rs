//! Runs handlers on a thread, one job at a time.
//!
//! Slots take jobs from one channel: slow jobs one by one, so that none waits behind another while a
//! slot is free, and fast ones in chunks. Their verdicts go to the settler in chunks, too, because
//! waking a thread for each fast job costs more than the job. If a job of a chunk turns out to be slow,
//! the watchdog displaces the jobs behind it to the other slots.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::job::death_cause::DeathCause;
use crate::job::error_report::ErrorReport;
use crate::job::follow_up::FollowUp;
use crate::job::payload::Json;
use crate::pipeline::claim::demand::SLOW;
use crate::pipeline::claim::{ClaimedJob, LeaseId};
use crate::pipeline::judge::{JudgeContext, Verdict, judge};
use crate::pipeline::outcome::Outcome;
use crate::pipeline::settlement::Settlement;
use crate::sync::atomic::Ordering;
use crate::sync::channel::{Receiver, Sender, TrySendError, select};
use crate::sync::{Instant, thread};
use crate::worker::breaker_state::{AttemptEnd, BreakerReport};
use crate::worker::handlers::AttemptResult;
use crate::worker::latch::lock;
use crate::worker::settler::Message;
use crate::worker::slot_state::{Overrun, RunningJob, SlotState};
use crate::worker::state::State;
use crate::worker::threads::supervised;
use crate::worker::wake_mode::Wake;

/// The maximum number of verdicts of a chunk. A job that runs for [`SLOW`] ends its chunk, so that a
/// full chunk delays no verdict by more than 32 ms. The watchdog sends the chunk of a slot that runs a
/// longer job.
const VERDICTS_IN_CHUNK: usize = 32;
/// The state and channels that all slots share.
#[derive(Clone)]
pub(crate) struct SlotContext {
    pub(crate) state: Arc<State>,
    /// Receives chunks of claimed jobs. Closed at a stop.
    pub(crate) jobs: Receiver<Vec<ClaimedJob>>,
    /// Takes jobs from a slot that runs a slow one.
    pub(crate) displace: Sender<Vec<ClaimedJob>>,
    pub(crate) displaced: Receiver<Vec<ClaimedJob>>,
    pub(crate) settle: Sender<Message>,
    pub(crate) wake: Sender<Wake>,
    /// Receives a message from each slot that ends.
    pub(crate) left: Sender<()>,
}

/// Starts a slot.
pub(crate) fn start(context: &SlotContext) -> Result<()> {
    let slot_state = Arc::new(SlotState::default());
    let number = {
        let mut slots = lock(&context.state.slots);
        slots.push(Arc::clone(&slot_state));
        slots.len()
    };
    let context = context.clone();
    thread::Builder::new()
        .name(format!("redrive-slot-{number}"))
        .spawn(move || {
            supervised(&context.state, &format!("slot {number}"), || {
                work(&context, &slot_state);
            });
            displace(&context, &slot_state);
            send_verdicts(&slot_state, &context.settle);
            lock(&context.state.slots).retain(|other| !Arc::ptr_eq(other, &slot_state));
            // A full channel means that the reader will check anyway.
            _ = context.left.try_send(());
        })
        .map_err(|error| {
            Error::unavailable(format!("could not start slot {number}")).caused_by(error)
        })?;
    Ok(())
}

/// Runs jobs until the channel closes, or until another slot replaced this one.
fn work(context: &SlotContext, slot_state: &SlotState) {
    let state = &context.state;
    while let Some(claimed) = next_job(context, slot_state) {
        let started = Instant::now();
        // Start nothing if the worker stops, its leases may be lost, a breaker is open, or the
        // queue is paused.
        let is_blocked = state
            .breakers
            .stops(claimed.lease, &claimed.meta.kind, started);
        if is_blocked || state.stopping.is_set() || !state.trust.holds(started) {
            _ = context.settle.send(Message::Unrun {
                lease: claimed.lease,
            });
            let (lease, kind) = (claimed.lease, &claimed.meta.kind);
            record_end(context, lease, kind, AttemptEnd::Unrun, started);
            state.count_finished(None);
            continue;
        }
        if let Some(limit) = claimed.meta.expired(started) {
            end_unrun(context, slot_state, &claimed, expired(limit), started);
            continue;
        }
        let Some(handler) = state.config.handlers.of(&claimed.meta.kind) else {
            end_unrun(context, slot_state, &claimed, unhandled(&claimed), started);
            continue;
        };
        let running = Arc::new(RunningJob {
            lease: claimed.lease,
            meta: Arc::clone(&claimed.meta),
            started,
            deadline: handler.deadline(state.config.deadline),
            backoff: handler.backoff(&state.config.backoff).clone(),
            overrun: if handler.is_in_transaction() {
                Overrun::Await
            } else {
                Overrun::GiveAway
            },
            signal: Arc::default(),
        });
        let signal = Arc::clone(&running.signal);
        *lock(&slot_state.running) = Some(Arc::clone(&running));
        let attempted = handler.attempt(claimed, Arc::clone(&signal));
        *lock(&slot_state.running) = None;
        if signal.given_away.swap(true, Ordering::AcqRel) {
            note_late(state, &running, &attempted);
            return;
        }
        let now = Instant::now();
        match attempted {
            AttemptResult::Judge(outcome, follow_ups) => {
                conclude(context, slot_state, &running, outcome, follow_ups, now);
            }
            AttemptResult::Settled => {
                state.counts.done.fetch_add(1, Ordering::Relaxed);
                end_lease(context, &running, AttemptEnd::Done, now);
            }
            AttemptResult::Lost => {
                state.counts.lost.fetch_add(1, Ordering::Relaxed);
                end_lease(context, &running, AttemptEnd::Unrun, now);
            }
        }
        if signal.replaced.load(Ordering::Acquire) {
            return;
        }
    }
}

/// Records the end of a handler whose job was given away. Only a transaction may have settled it all
/// the same, because the database decides.
fn note_late(state: &State, running: &RunningJob, attempted: &AttemptResult) {
    let job = running.meta.id;
    match attempted {
        AttemptResult::Settled => {
            state.counts.done.fetch_add(1, Ordering::Relaxed);
            log::info!("{state} job={job}: finished in its transaction while the worker stopped");
        }
        AttemptResult::Judge(..) | AttemptResult::Lost => {
            let end = match running.signal.replaced.load(Ordering::Acquire) {
                true => "its deadline",
                false => "the stop of its worker",
            };
            log::warn!("{state} job={job}: finished after {end}; result rejected");
        }
    }
}

/// Returns the next job, or `None` after the last one. Sends the verdicts before it waits for one.
fn next_job(context: &SlotContext, slot_state: &SlotState) -> Option<ClaimedJob> {
    let SlotContext {
        jobs, displaced, ..
    } = context;
    slot_state.next_job().or_else(|| {
        let mut chunk = displaced.try_recv().or_else(|_| jobs.try_recv()).ok();
        if chunk.is_none() {
            send_verdicts(slot_state, &context.settle);
            select! {
                recv(jobs) -> sent => chunk = sent.ok(),
                recv(displaced) -> sent => chunk = sent.ok(),
            }
        }
        // The channel of the fetcher is closed. Displaced jobs are left to report.
        let chunk = chunk.or_else(|| displaced.try_recv().ok());
        slot_state.first_job(chunk?)
    })
}

/// Gives the waiting jobs of a slot to the others, because the slot runs a slow one or ends.
pub(crate) fn displace(context: &SlotContext, slot_state: &SlotState) {
    let waiting = slot_state.take_chunk();
    for claimed in waiting {
        // One by one, because the next one may be slow, too. The channel cannot be closed.
        _ = context.displace.send(vec![claimed]);
    }
}

/// Sends the verdicts of a slot to the settler.
fn send_verdicts(slot_state: &SlotState, settle: &Sender<Message>) {
    let verdicts = slot_state.take_verdicts();
    if !verdicts.is_empty() {
        // The settler outlives the slots unless the worker was dropped. Then the lease expires and
        // the job is retried.
        _ = settle.send(Message::Settled(verdicts));
    }
}

/// Sends the verdicts of a slot that runs a long job, unless that would wait.
pub(crate) fn offer_verdicts(context: &SlotContext, slot_state: &SlotState) {
    let verdicts = slot_state.take_verdicts();
    if verdicts.is_empty() {
        return;
    }
    let offered = context.settle.try_send(Message::Settled(verdicts));
    if let Err(TrySendError::Full(Message::Settled(verdicts))) = offered {
        slot_state.add_verdicts(verdicts);
    }
}

/// Forgets a lease that its handler's transaction ended, or found lost. The settler never heard of it.
fn end_lease(context: &SlotContext, running: &RunningJob, end: AttemptEnd<'_>, now: Instant) {
    let (state, lease) = (&context.state, running.lease);
    if state.forget(&[lease]) {
        // A job that waits to be the only suspect sends no notification.
        _ = context.wake.try_send(Wake::Work);
    }
    if let Some(group) = &running.meta.group {
        state.passed_groups.note([Arc::clone(group)]);
        _ = context.wake.try_send(Wake::Work);
    }
    record_end(context, lease, &running.meta.kind, end, now);
    state.count_finished(Some(now.saturating_duration_since(running.started)));
}

/// Returns a job that no slot started, before its lease ends.
pub(crate) fn return_unstarted(context: &SlotContext, claimed: &ClaimedJob) {
    let (lease, kind) = (claimed.lease, &claimed.meta.kind);
    _ = context.settle.send(Message::Unstarted {
        lease,
        job: claimed.meta.id,
    });
    record_end(context, lease, kind, AttemptEnd::Unrun, Instant::now());
    context.state.count_finished(None);
}

/// Judges the outcome of a job that ended at `now`, and adds the verdict to the chunk of its slot.
/// Only a success has follow-ups.
pub(crate) fn conclude(
    context: &SlotContext,
    slot_state: &SlotState,
    running: &RunningJob,
    outcome: Outcome,
    follow_ups: Vec<FollowUp>,
    now: Instant,
) {
    let (lease, kind) = (running.lease, &running.meta.kind);
    let failed = outcome.classify();
    let breakers = &context.state.breakers;
    let attempt = match &failed {
        None => AttemptEnd::Done,
        Some(failed) if failed.is_outage() => AttemptEnd::Outage {
            dependency: failed.dependency.as_deref(),
            message: &failed.report.message,
        },
        Some(_) => AttemptEnd::Other,
    };
    let reports = breakers.note(lease, kind, attempt, now);
    let outage = failed.as_ref().filter(|failed| failed.is_outage());
    let park = outage.map_or(Duration::ZERO, |failed| {
        breakers.park(kind, failed.dependency.as_deref())
    });
    let in_outage = outage.is_some();
    let cause = failed.as_ref().and_then(|failed| failed.cause);
    let verdict = judge(
        failed,
        &JudgeContext {
            attempt: running.meta.attempt,
            max_attempts: running.meta.max_attempts,
            cancelled: running.signal.by_operator.load(Ordering::Relaxed),
            backoff: &running.backoff,
            outage_age: running.meta.outage_age,
            park,
            random: fastrand::f64(),
        },
    );
    let flooded = match &verdict {
        Verdict::Dead { cause, .. } if counts_as_flood(*cause) => flood(&context.state, now),
        Verdict::Dead { .. }
        | Verdict::Done
        | Verdict::Retry { .. }
        | Verdict::Snooze { .. }
        | Verdict::Outage { .. } => None,
    };
    let run_time = now.saturating_duration_since(running.started);
    let checkpoint = match &verdict {
        Verdict::Done => None,
        Verdict::Retry { .. }
        | Verdict::Snooze { .. }
        | Verdict::Outage { .. }
        | Verdict::Dead { .. } => unstored(running),
    };
    let settlement = Settlement {
        lease: running.lease,
        meta: Arc::clone(&running.meta),
        run_time,
        verdict: match &context.state.config.redact {
            Some(redact) => verdict.redacted(&**redact),
            None => verdict,
        },
        in_outage,
        cause,
        age: running.meta.age + now.saturating_duration_since(running.meta.claimed),
        follow_ups,
        checkpoint,
    };
    let reports: Vec<BreakerReport> = reports.into_iter().chain(flooded).collect();
    let verdicts = slot_state.add_verdicts([settlement]);
    if verdicts >= VERDICTS_IN_CHUNK || run_time >= SLOW || !reports.is_empty() {
        send_verdicts(slot_state, &context.settle);
    }
    for report in reports {
        _ = context.settle.send(Message::Breaker(report));
    }
    context.state.count_finished(Some(run_time));
}

/// Returns the headers of the last checkpoint, unless they are stored.
fn unstored(running: &RunningJob) -> Option<Json> {
    // Headers are strings, so they are valid JSON.
    let unstored = running.signal.checkpoints.unstored().ok().flatten();
    unstored.map(|unstored| unstored.headers)
}

/// Whether a letter of this cause counts for the flood guard: a pause would not help a job that an
/// operator cancelled or that was too late.
fn counts_as_flood(cause: DeathCause) -> bool {
    !matches!(cause, DeathCause::Manual | DeathCause::Expired)
}

/// Counts a letter. Opens the queue's breaker if the flood guard trips.
fn flood(state: &State, now: Instant) -> Option<BreakerReport> {
    let mut guard = lock(&state.flood);
    let guard = guard.as_mut()?;
    let message = guard.is_over(now).then(|| guard.message())?;
    state.breakers.flood(&message, now)
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
        _ = context.settle.send(Message::Breaker(report));
    }
}

/// Returns the outcome of a job without a handler. The claim skips such kinds, unless a kind was renamed
/// in the database.
fn unhandled(claimed: &ClaimedJob) -> Outcome {
    let message = format!("no handler for kind `{}`", claimed.meta.kind);
    Outcome::Unhandled(ErrorReport::new("Unhandled", message, None))
}

/// Returns the outcome of a job that was claimed later than `limit` after its enqueue.
fn expired(limit: Duration) -> Outcome {
    let message = format!("did not start within {limit:?} of its enqueue");
    Outcome::Expired(ErrorReport::new("Expired", message, None))
}

/// Judges a job that no handler ran.
fn end_unrun(
    context: &SlotContext,
    slot_state: &SlotState,
    claimed: &ClaimedJob,
    outcome: Outcome,
    now: Instant,
) {
    let running = RunningJob {
        lease: claimed.lease,
        meta: Arc::clone(&claimed.meta),
        started: now,
        deadline: context.state.config.deadline,
        backoff: context.state.config.backoff.clone(),
        overrun: Overrun::GiveAway,
        signal: Arc::default(),
    };
    conclude(context, slot_state, &running, outcome, Vec::new(), now);
}
