//! Enforces deadlines and lease expiry on a thread that does not use the database.
//!
//! It must work while the database does not, because it stops handlers whose jobs may already
//! belong to another worker. It also releases claimed jobs that wait behind slow ones.

use std::time::Duration;

use crate::pipeline::outcome::Outcome;
use crate::sync::Instant;
use crate::sync::atomic::Ordering;
use crate::sync::channel::RecvTimeoutError;
use crate::worker::latch::{LatchReceiver, lock};
use crate::worker::slot::{self, SlotContext};
use crate::worker::state::{Overrun, RunningJob};

/// The check interval, and so how late a deadline may be noticed.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The check interval while nothing runs; each wake-up costs an idle program CPU time.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Runs until the worker ends.
pub(crate) fn work(context: &SlotContext, over: &LatchReceiver) {
    let state = &context.state;
    let pause = || match state.in_flight() {
        0 => IDLE_CHECK_INTERVAL,
        _ => CHECK_INTERVAL,
    };
    let mut overrun_slots = 0;
    let mut trusted = true;
    while over.recv_timeout(pause()) == Err(RecvTimeoutError::Timeout) {
        let now = Instant::now();
        let trusts = state.trust.holds(now);
        if trusted && !trusts {
            log::error!(
                "{state}: lease not renewed in time; cancelling its {} jobs",
                state.in_flight()
            );
        }
        trusted = trusts;
        for running in running(context) {
            if !trusts {
                running.signal.cancelled.store(true, Ordering::Relaxed);
            }
            if now.saturating_duration_since(running.started) < running.deadline {
                continue;
            }
            running.signal.cancelled.store(true, Ordering::Relaxed);
            if running.signal.replaced.swap(true, Ordering::AcqRel) {
                continue;
            }
            log::error!(
                "{state} job={}: exceeded its deadline of {:?}",
                running.meta.id,
                running.deadline
            );
            // The thread cannot be stopped. Its job is judged without it, unless it just ended or
            // its transaction holds the lease, and a new thread takes over the slot.
            if running.overrun == Overrun::GiveAway
                && !running.signal.given_away.swap(true, Ordering::AcqRel)
            {
                slot::conclude(context, &running, Outcome::TimedOut(running.deadline));
            }
            overrun_slots += 1;
            if overrun_slots > state.config.slots {
                state.fail(format!(
                    "{overrun_slots} handlers exceeded their deadlines and are still running"
                ));
            } else if let Err(error) = slot::start(context) {
                state.fail(format!("could not replace a slot: {error}"));
            }
        }
        overrun_slots = overrun_slots.min(overdue(context));
        give_back(context, now);
    }
}

/// Releases the waiting jobs while every slot runs a slow one, because another worker may have a
/// free slot.
fn give_back(context: &SlotContext, now: Instant) {
    if context.jobs.is_empty() {
        return;
    }
    let runs_for = |running: &RunningJob| now.saturating_duration_since(running.started);
    let slots = lock(&context.state.slots).clone();
    // `None`: a slot is free and takes the waiting jobs.
    let slow: Option<Vec<Duration>> = slots
        .iter()
        .map(|slot_state| lock(&slot_state.running).as_ref().map(runs_for))
        .collect();
    let Some(least) = slow.and_then(|slow| slow.into_iter().min()) else {
        return;
    };
    if least < context.state.config.hold_for {
        return;
    }
    // First, or the fetcher claims them again.
    context.state.raise_run_time(least);
    for claimed in context.jobs.try_iter() {
        slot::return_unstarted(context, &claimed);
    }
}

/// Returns a copy of the running jobs, so that no lock is held while they are handled.
fn running(context: &SlotContext) -> Vec<RunningJob> {
    lock(&context.state.slots)
        .iter()
        .filter_map(|slot_state| lock(&slot_state.running).clone())
        .collect()
}

/// Returns how many handlers still run in replaced slots.
fn overdue(context: &SlotContext) -> usize {
    running(context)
        .iter()
        .filter(|running| running.signal.replaced.load(Ordering::Relaxed))
        .count()
}
