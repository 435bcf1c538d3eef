//! Enforces deadlines and lease expiry on a thread that does not use the database.
//!
//! It must work while the database does not, because it stops handlers whose jobs may already
//! belong to another worker. It also gives jobs that wait behind a slow one to the other slots, releases
//! them if all slots are slow, and sends the verdicts of slots that run slow ones.

use std::sync::Arc;
use std::time::Duration;

use crate::pipeline::claim::demand::SLOW;
use crate::pipeline::outcome::Outcome;
use crate::sync::Instant;
use crate::sync::atomic::Ordering;
use crate::sync::channel::{Receiver, select};
use crate::worker::latch::{LatchReceiver, lock};
use crate::worker::slot::{self, SlotContext};
use crate::worker::slot_state::{Overrun, RunningJob, SlotState};

/// The check interval, and so how late a deadline may be noticed.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The check interval while it rests, because each wake-up costs an idle program CPU time. New jobs
/// end it.
const REST: Duration = Duration::from_secs(10);

/// The checks without a job before it rests, so that it is seldom woken while jobs arrive one by one.
const CHECKS_BEFORE_REST: u32 = 10;

/// Runs until the worker ends. `busy` receives a message when jobs are claimed while it rests.
pub(crate) fn work(context: &SlotContext, over: &LatchReceiver, busy: &Receiver<()>) {
    let state = &context.state;
    let mut overrun_slots = 0;
    let mut trusted = true;
    let mut checks_without_jobs = 0_u32;
    loop {
        let pause = match checks_without_jobs >= CHECKS_BEFORE_REST && state.rest_watchdog() {
            true => REST,
            false => CHECK_INTERVAL,
        };
        select! {
            recv(over) -> _ => return,
            recv(busy) -> _ => {
                checks_without_jobs = 0;
                continue;
            }
            default(pause) => {}
        }
        checks_without_jobs = match state.in_flight() {
            0 => checks_without_jobs.saturating_add(1),
            _ => 0,
        };
        let now = Instant::now();
        let trusts = state.trust.holds(now);
        if trusted && !trusts {
            log::error!(
                "{state}: lease not renewed in time; cancelling its {} jobs",
                state.in_flight()
            );
        }
        trusted = trusts;
        for (slot_state, running) in running(context) {
            slot::offer_verdicts(context, &slot_state);
            if now.saturating_duration_since(running.started) >= SLOW {
                slot::displace(context, &slot_state);
            }
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
                let outcome = Outcome::TimedOut(running.deadline);
                slot::conclude(context, &slot_state, &running, outcome, Vec::new(), now);
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
    if context.jobs.is_empty() && context.displaced.is_empty() {
        return;
    }
    let runs_for = |running: &Arc<RunningJob>| now.saturating_duration_since(running.started);
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
    let waiting = context.displaced.try_iter().chain(context.jobs.try_iter());
    for claimed in waiting.flatten() {
        slot::return_unstarted(context, &claimed);
    }
}

/// Returns the slots that run a job, so that no lock is held while they are handled.
fn running(context: &SlotContext) -> Vec<(Arc<SlotState>, Arc<RunningJob>)> {
    let slots = lock(&context.state.slots);
    let with_job = |slot_state: &Arc<SlotState>| {
        let running = lock(&slot_state.running).clone()?;
        Some((Arc::clone(slot_state), running))
    };
    slots.iter().filter_map(with_job).collect()
}

/// Returns how many handlers still run in replaced slots.
fn overdue(context: &SlotContext) -> usize {
    running(context)
        .iter()
        .filter(|(_, running)| running.signal.replaced.load(Ordering::Relaxed))
        .count()
}
