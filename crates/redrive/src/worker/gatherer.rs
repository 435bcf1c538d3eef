//! Gathers the claimed jobs of batch handlers.
//!
//! The jobs wait in memory under their leases, which the renewer keeps. At a stop they go back to the
//! queue with the other jobs that did not start.

use std::sync::Arc;
use std::time::Duration;

use crate::pipeline::claim::ClaimedJob;
use crate::sync::Instant;
use crate::sync::atomic::Ordering;
use crate::sync::handout::Giver;
use crate::worker::batch::BatchOptions;
use crate::worker::gathering::Gathering;
use crate::worker::latch::lock;
use crate::worker::slot_state::{Chunk, QueuedChunk};
use crate::worker::state::State;

/// Gathers the jobs among these whose kinds have batch handlers, and takes full batches to the slots. Returns the others.
pub(crate) fn gather(
    state: &State,
    slots: &Giver<QueuedChunk>,
    claimed: Vec<ClaimedJob>,
) -> Vec<ClaimedJob> {
    let Some(gathering) = &state.gathering else {
        return claimed;
    };
    let (mut size, mut single, now) = (0, Vec::new(), Instant::now());
    let mut gathering = lock(gathering);
    for job in claimed {
        let handler = state.handlers.of(&job.meta.kind);
        match handler.and_then(|handler| handler.batches.as_ref()) {
            None => single.push(job),
            Some(rule) => {
                size = size.max(rule.size);
                add(state, slots, &mut gathering, rule, job, now);
            }
        }
    }
    state.set_batch_size(size);
    if size > 0 {
        start(state, |batch| slots.give(batch), &mut gathering);
        // The fetcher wakes when the next one is due.
        state.shared.jobs.ring();
    }
    single
}

/// Gives the batches that have lingered long enough to the slots. Returns when the next one is due.
pub(crate) fn start_due(state: &State, give: impl Fn(QueuedChunk)) -> Option<Instant> {
    let mut gathering = lock(state.gathering.as_ref()?);
    if state.shared.stopping.is_set() || gathering.next_due()? <= Instant::now() {
        start(state, give, &mut gathering);
    }
    gathering.next_due()
}

fn start(state: &State, give: impl Fn(QueuedChunk), gathering: &mut Gathering<ClaimedJob>) {
    // At a stop, the slots hand all of them back.
    let by = (!state.shared.stopping.is_set()).then(Instant::now);
    for batch in gathering.take_due(by) {
        give((state.place, Chunk::Together(batch)));
    }
    state.set_missing(gathering.missing());
}

/// Adds a job, and sends its batch if that starts now.
fn add(
    state: &State,
    slots: &Giver<QueuedChunk>,
    gathering: &mut Gathering<ClaimedJob>,
    rule: &BatchOptions,
    claimed: ClaimedJob,
    now: Instant,
) {
    // The breaker of a probe lets nothing else run.
    let may_join = !state.breakers.is_probe(claimed.lease);
    // A suspect crashes only itself, and after a failed attempt, a bad job must not fail others again.
    let may_join = may_join && claimed.crashes == 0 && claimed.meta.attempt == 1;
    if !may_join {
        return slots.give((state.place, Chunk::Together(vec![claimed])));
    }
    // Its batch starts with the jobs that were claimed together if its token of a rate limit would be lost.
    let linger = claimed.start_by.map_or(rule.linger, |_| Duration::ZERO);
    let (kind, bytes) = (
        Arc::clone(&claimed.meta.kind),
        claimed.payload.as_str().len(),
    );
    let (joined, filled) = gathering.add(&kind, claimed, bytes, rule.size, now + linger);
    if joined {
        // A batch counts as one job.
        state.user.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
    if let Some(batch) = filled {
        slots.give((state.place, Chunk::Together(batch)));
    }
}
