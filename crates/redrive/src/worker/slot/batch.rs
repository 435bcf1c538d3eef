//! Runs the jobs of a batch together.

use std::sync::Arc;

use super::{SlotContext, SlotEnd, leave_shown, show, startable};
use crate::pipeline::claim::ClaimedJob;
use crate::sync::Instant;
use crate::worker::conclusion;
use crate::worker::handlers::{Handler, JobEnd};
use crate::worker::latch::lock;
use crate::worker::settler::Message;
use crate::worker::slot_state::{Run, RunningJob, SlotState, TakenBy};
#[cfg(feature = "tracing")]
use crate::worker::span;

/// Runs a batch. A batch counts as one job in flight, and its slot ends it once.
pub(super) fn run_batch(
    context: &SlotContext,
    slot_state: &SlotState,
    mut jobs: Vec<ClaimedJob>,
) -> SlotEnd {
    let (state, started) = (&context.state, Instant::now());
    jobs.retain(|claimed| startable(context, slot_state, claimed, started).is_ok());
    let mut running = jobs.iter().map(RunningJob::of);
    let first = running.next();
    let handler = first.as_ref();
    let handler = handler.and_then(|job| state.handlers.of(&job.meta.kind));
    let batch = handler.and_then(Handler::batch);
    let (Some(first), Some(handler), Some(batch)) = (first, handler, batch) else {
        super::settle(context, slot_state.take_verdicts_of(context.state.place));
        state.count_finished(None);
        return SlotEnd::Kept;
    };
    let mut run = super::run_of(context, first, &handler.options, started);
    run.others = running.collect();
    let run = Arc::new(run);
    show(state, slot_state, &run);
    if state.shared.stopping.is_set() {
        return leave_shown(context, slot_state, &run);
    }
    let signals = run.jobs().map(|running| Arc::clone(&running.signal));
    let attempts = jobs.into_iter().zip(signals).collect();
    #[cfg(feature = "tracing")]
    let _span = span::enter(&run.first.meta, run.size());
    let ends = (batch.run)(attempts);
    let end = match run.take(TakenBy::Slot) {
        true => {
            settle(context, slot_state, &run, ends);
            SlotEnd::Kept
        }
        false => {
            log::warn!(
                "{state}: {} jobs of a batch finished after its deadline or the stop of its worker; results rejected",
                run.size()
            );
            SlotEnd::Replaced
        }
    };
    // A stop finds the jobs here or their verdicts there.
    *lock(&slot_state.running) = None;
    end
}

/// Settles the jobs.
fn settle(context: &SlotContext, slot_state: &SlotState, run: &Run, ends: Vec<JobEnd>) {
    let (state, now) = (&context.state, Instant::now());
    let mut reports = Vec::new();
    let mut settlements = Vec::with_capacity(run.size());
    for (running, end) in run.jobs().zip(ends) {
        let (settlement, more) = conclusion::conclude(state, run, running, end, now);
        settlements.push(settlement);
        reports.extend(more);
    }
    let queue = context.state.place;
    slot_state.add_verdicts(queue, settlements);
    super::settle(context, slot_state.take_verdicts_of(queue));
    for report in reports {
        context.tell(Message::Breaker(report));
    }
    state.count_finished(Some(run.ran(now)));
}
