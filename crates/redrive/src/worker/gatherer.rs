//! Gathers the claimed jobs of batch handlers, on a thread that only workers with such handlers have.
//!
//! The jobs wait in memory under their leases, which the renewer keeps. At a stop they go back to the
//! queue with the other jobs that did not start.

use std::sync::Arc;

use crate::pipeline::claim::ClaimedJob;
use crate::sync::Instant;
use crate::sync::channel::{Receiver, RecvTimeoutError};
use crate::worker::gathering::Gathering;
use crate::worker::settler::{Message, ToSettler};
use crate::worker::slot_state::{Chunk, SlotsGone, ToSlots};
use crate::worker::state::State;

/// The channels of the gatherer.
pub(crate) struct GathererContext {
    /// Receives claimed jobs whose kinds have batch handlers. Closed at a stop.
    pub(crate) claimed: Receiver<Vec<ClaimedJob>>,
    /// Takes batches to the slots.
    pub(crate) jobs: ToSlots,
    pub(crate) settle: ToSettler,
}

/// Gathers until the fetchers end.
pub(crate) fn work(state: &Arc<State>, context: &GathererContext) {
    let mut gathering = Gathering::new();
    while let Ok(()) = gather_once(state, context, &mut gathering) {
        state.set_missing(gathering.missing());
    }
    for claimed in gathering.take_all() {
        let lease = claimed.lease;
        _ = context.settle.send(Message::Unrun { lease });
    }
}

/// Waits for jobs or for the start of a batch. Fails when the worker ends.
fn gather_once(
    state: &State,
    context: &GathererContext,
    gathering: &mut Gathering<ClaimedJob>,
) -> Result<(), RecvTimeoutError> {
    let received = match gathering.next_due() {
        Some(due) => context.claimed.recv_deadline(due),
        None => {
            let received = context.claimed.recv();
            received.map_err(|_| RecvTimeoutError::Disconnected)
        }
    };
    let claimed = match received {
        Ok(claimed) => claimed,
        Err(RecvTimeoutError::Timeout) => Vec::new(),
        Err(RecvTimeoutError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
    };
    let now = Instant::now();
    let sent = claimed
        .into_iter()
        .try_for_each(|claimed| add(state, context, gathering, claimed, now));
    let due = gathering.take_due(now).into_iter();
    sent.and_then(|()| {
        due.map(Chunk::Together)
            .try_for_each(|batch| context.jobs.send(batch))
    })
    .map_err(|_: SlotsGone| RecvTimeoutError::Disconnected)
}

/// Adds a job, and sends its batch if that starts now.
fn add(
    state: &State,
    context: &GathererContext,
    gathering: &mut Gathering<ClaimedJob>,
    claimed: ClaimedJob,
    now: Instant,
) -> Result<(), SlotsGone> {
    let handler = state.config.handlers.batch(&claimed.meta.kind);
    // The breaker of a probe lets nothing else run.
    let may_join = !state.breakers.is_probe(claimed.lease);
    let rule = handler.map(|handler| &handler.rule).filter(|_| may_join);
    let (attempt, crashes) = (claimed.meta.attempt, claimed.crashes);
    let Some(rule) = rule.filter(|rule| !rule.runs_alone(attempt, crashes)) else {
        return context.jobs.send(Chunk::Together(vec![claimed]));
    };
    let rule = match claimed.start_by {
        Some(_) => rule.without_linger(),
        None => rule.clone(),
    };
    let (kind, bytes) = (
        Arc::clone(&claimed.meta.kind),
        claimed.payload.as_str().len(),
    );
    let (joined, filled) = gathering.add(&kind, claimed, bytes, &rule, now);
    if joined {
        state.count_joined();
    }
    filled.map_or(Ok(()), |batch| context.jobs.send(Chunk::Together(batch)))
}
