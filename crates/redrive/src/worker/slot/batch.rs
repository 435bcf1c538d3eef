//! Runs the jobs of a batch together.

use std::sync::Arc;

use super::{SlotContext, SlotEnd, conclude, leave_shown, run_of, settle, show, startable};
use crate::pipeline::claim::ClaimedJob;
use crate::sync::Instant;
use crate::worker::handlers::Handler;
use crate::worker::latch::lock;
use crate::worker::slot_state::{RunningJob, SlotState, TakenBy};
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
        settle(context, slot_state.take_verdicts());
        state.count_finished(None);
        return SlotEnd::Kept;
    };
    let mut run = run_of(context, first, &handler.options, started);
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
            let now = Instant::now();
            for (running, end) in run.jobs().zip(ends) {
                conclude(context, slot_state, &run, running, end, now);
            }
            settle(context, slot_state.take_verdicts());
            state.count_finished(Some(run.ran(now)));
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
