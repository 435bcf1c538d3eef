//! Runs the jobs of a batch together.

use std::sync::Arc;
use std::time::Duration;

use super::{SlotContext, end_unrun, expired, keep_slot, leave_unrun, unhandled};
use crate::pipeline::claim::ClaimedJob;
use crate::sync::Instant;
use crate::sync::atomic::Ordering;
use crate::worker::conclusion::{self, EndedAttempt, share};
use crate::worker::handlers::{Handler, JobEnd};
use crate::worker::latch::lock;
use crate::worker::settler::Message;
use crate::worker::slot_state::{RunningJob, SlotState};
#[cfg(feature = "tracing")]
use crate::worker::span;

/// Whether a slot continues after a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotEnd {
    Kept,
    /// Another thread has taken the jobs or the slot.
    Replaced,
}

/// Runs a batch. A batch counts as one job in flight, and its slot ends it once.
pub(super) fn run_batch(
    context: &SlotContext,
    slot_state: &SlotState,
    jobs: Vec<ClaimedJob>,
) -> SlotEnd {
    let (state, started) = (&context.state, Instant::now());
    let first_kind = jobs.first().map(|job| Arc::clone(&job.meta.kind));
    let handler = first_kind.and_then(|kind| state.config.handlers.of(&kind));
    let jobs = startable(context, slot_state, jobs, handler, started);
    let batch = handler.and_then(Handler::batch);
    let (Some(handler), Some(batch), false) = (handler, batch, jobs.is_empty()) else {
        super::settle(context, slot_state.take_verdicts_of(context.settle.queue));
        state.count_finished(None);
        return SlotEnd::Kept;
    };
    let running: Vec<Arc<RunningJob>> = jobs
        .iter()
        .map(|claimed| {
            Arc::new(RunningJob {
                queue: context.settle.queue,
                lease: claimed.lease,
                meta: Arc::clone(&claimed.meta),
                started,
                deadline: handler.options.deadline_or(state.config.deadline),
                options: Arc::clone(&handler.options),
                signal: Arc::default(),
            })
        })
        .collect();
    let signals = running.iter().map(|running| Arc::clone(&running.signal));
    let attempts = jobs.into_iter().zip(signals).collect();
    lock(&slot_state.running).extend(running.iter().map(Arc::clone));
    for running in &running {
        if state.is_cancelled(running.meta.id) {
            running.signal.cancel_by_operator();
        }
    }
    #[cfg(feature = "tracing")]
    let _span = running
        .first()
        .map(|first| span::enter(&first.meta, running.len()));
    let ends = batch.attempt(attempts);
    let kept = settle(context, slot_state, &running, ends);
    // A stop finds the jobs here or their verdicts there.
    lock(&slot_state.running).clear();
    // The watchdog replaces the slot of a batch through its first job.
    match running.first().map(|first| keep_slot(first)) {
        Some(SlotEnd::Kept) if kept == running.len() => SlotEnd::Kept,
        Some(SlotEnd::Kept | SlotEnd::Replaced) | None => SlotEnd::Replaced,
    }
}

/// Returns the jobs that may start, and ends the others.
fn startable(
    context: &SlotContext,
    slot_state: &SlotState,
    jobs: Vec<ClaimedJob>,
    handler: Option<&Handler>,
    now: Instant,
) -> Vec<ClaimedJob> {
    let state = &context.state;
    let is_over = state.stopping.is_set() || !state.trust.holds(now);
    let may_start = |claimed: &ClaimedJob| {
        let (lease, kind) = (claimed.lease, &claimed.meta.kind);
        let is_late = claimed.start_by.is_some_and(|by| now >= by);
        if is_over || is_late || state.breakers.stops(lease, kind, now) {
            leave_unrun(context, claimed, now);
            return false;
        }
        let outcome = match (claimed.meta.expired(now), handler) {
            (Some(limit), _) => expired(limit),
            (None, None) => unhandled(claimed),
            (None, Some(_)) => return true,
        };
        end_unrun(context, slot_state, claimed, outcome, now);
        false
    };
    jobs.into_iter().filter(may_start).collect()
}

/// Settles the jobs, except those that the watchdog or a stop has taken. Returns how many it settled.
fn settle(
    context: &SlotContext,
    slot_state: &SlotState,
    running: &[Arc<RunningJob>],
    ends: Vec<JobEnd>,
) -> usize {
    let (state, now) = (&context.state, Instant::now());
    let mut reports = Vec::new();
    let mut settlements = Vec::with_capacity(running.len());
    let (ran, run_time) = match running.first() {
        Some(first) => (
            now.saturating_duration_since(first.started),
            share(first.started, running.len(), now),
        ),
        None => (Duration::ZERO, Duration::ZERO),
    };
    let mut finished = None;
    for (running, end) in running.iter().zip(ends) {
        let is_mine = !running.signal.given_away.swap(true, Ordering::AcqRel);
        // The one who takes the first job counts the end of the batch.
        finished.get_or_insert(is_mine);
        if is_mine {
            let ended = EndedAttempt::of(end, run_time, now);
            let (settlement, more) = conclusion::conclude(state, running, ended);
            settlements.push(settlement);
            reports.extend(more);
        }
    }
    let kept = settlements.len();
    if kept < running.len() {
        log::warn!(
            "{state}: {} jobs of a batch finished after its deadline or the stop of its worker; results rejected",
            running.len() - kept
        );
    }
    let queue = context.settle.queue;
    slot_state.add_verdicts(queue, settlements);
    super::settle(context, slot_state.take_verdicts_of(queue));
    for report in reports {
        _ = context.settle.send(Message::Breaker(report));
    }
    if finished == Some(true) {
        state.count_finished(Some(ran));
    }
    kept
}
