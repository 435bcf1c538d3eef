//! Runs the jobs of a batch together.

use std::sync::Arc;
use std::time::Duration;

use super::{SlotContext, keep_slot, leave_shown, running, show, startable};
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
    mut jobs: Vec<ClaimedJob>,
) -> SlotEnd {
    let (state, started) = (&context.state, Instant::now());
    jobs.retain(|claimed| startable(context, slot_state, claimed, started).is_ok());
    let handler = jobs.first();
    let handler = handler.and_then(|job| state.config.handlers.of(&job.meta.kind));
    let (Some(handler), Some(batch)) = (handler, handler.and_then(Handler::batch)) else {
        super::settle(context, slot_state.take_verdicts_of(context.settle.queue));
        state.count_finished(None);
        return SlotEnd::Kept;
    };
    let running = jobs
        .iter()
        .map(|claimed| Arc::new(running(context, claimed, &handler.options, started)));
    let running: Vec<Arc<RunningJob>> = running.collect();
    show(state, slot_state, &running);
    if state.shared.stopping.is_set() {
        return leave_shown(context, slot_state, &running);
    }
    let signals = running.iter().map(|running| Arc::clone(&running.signal));
    let attempts = jobs.into_iter().zip(signals).collect();
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
            let ended = EndedAttempt { end, run_time, now };
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
