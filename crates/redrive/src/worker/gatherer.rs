//! Gathers the claimed jobs of batch handlers, on a thread that only workers with such handlers have.
//!
//! The jobs wait in memory under their leases, which the renewer keeps. At a stop they go back to the
//! queue with the other jobs that did not start.

use std::sync::Arc;
use std::time::Duration;

use crate::pipeline::claim::ClaimedJob;
use crate::sync::Instant;
use crate::sync::atomic::Ordering;
use crate::sync::channel::{Receiver, RecvTimeoutError};
use crate::sync::handout::Giver;
use crate::worker::gathering::Gathering;
use crate::worker::slot_state::{Chunk, QueuedChunk};
use crate::worker::state::State;

/// Gathers claimed jobs whose kinds have batch handlers until the fetchers end, and takes batches to the slots.
pub(crate) fn work(state: &State, claimed: &Receiver<Vec<ClaimedJob>>, slots: &Giver<QueuedChunk>) {
    let mut gathering = Gathering::new();
    loop {
        let received = match gathering.next_due() {
            Some(due) => claimed.recv_deadline(due),
            None => claimed.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let claimed = match received {
            Ok(claimed) => claimed,
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let now = Instant::now();
        for claimed in claimed {
            add(state, slots, &mut gathering, claimed, now);
        }
        for batch in gathering.take_due(now) {
            slots.give((state.place, Chunk::Together(batch)));
        }
        state.set_missing(gathering.missing());
    }
    // The worker stops, so the slots hand them back.
    for batch in gathering.take_all() {
        slots.give((state.place, Chunk::Together(batch)));
    }
}

/// Adds a job, and sends its batch if that starts now.
fn add(
    state: &State,
    slots: &Giver<QueuedChunk>,
    gathering: &mut Gathering<ClaimedJob>,
    claimed: ClaimedJob,
    now: Instant,
) {
    let handler = state.handlers.batch(&claimed.meta.kind);
    // The breaker of a probe lets nothing else run.
    let may_join = !state.breakers.is_probe(claimed.lease);
    // A suspect crashes only itself, and after a failed attempt, a bad job must not fail others again.
    let may_join = may_join && claimed.crashes == 0 && claimed.meta.attempt == 1;
    let rule = handler.map(|handler| &handler.rule);
    let Some(rule) = rule.filter(|rule| may_join && rule.size > 1) else {
        return slots.give((state.place, Chunk::Together(vec![claimed])));
    };
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
