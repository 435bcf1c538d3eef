//! Runs handlers on a thread, one job at a time.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::job::death_cause::DeathCause;
use crate::job::error_report::ErrorReport;
use crate::pipeline::claim::{ClaimedJob, LeaseId};
use crate::pipeline::judge::{JudgeContext, Verdict, judge};
use crate::pipeline::outcome::Outcome;
use crate::pipeline::settlement::Settlement;
use crate::sync::atomic::Ordering;
use crate::sync::channel::{Receiver, Sender};
use crate::sync::{Instant, thread};
use crate::worker::breaker_state::{AttemptEnd, BreakerReport};
use crate::worker::handlers::AttemptResult;
use crate::worker::latch::lock;
use crate::worker::settler::Message;
use crate::worker::state::{Overrun, RunningJob, SlotState, State};
use crate::worker::threads::supervised;

/// The state and channels that all slots share.
#[derive(Clone)]
pub(crate) struct SlotContext {
    pub(crate) state: Arc<State>,
    pub(crate) jobs: Receiver<ClaimedJob>,
    pub(crate) settle: Sender<Message>,
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
    for claimed in &context.jobs {
        // Start nothing if the worker stops, its leases may be lost, or a breaker is open.
        let is_blocked = state.breakers.stops(claimed.lease, &claimed.meta.kind);
        if is_blocked || state.stopping.is_set() || !state.trust.holds(Instant::now()) {
            _ = context.settle.send(Message::Unrun {
                lease: claimed.lease,
            });
            let (lease, kind) = (claimed.lease, &claimed.meta.kind);
            record_end(context, lease, kind, AttemptEnd::Unrun);
            state.count_finished(None);
            continue;
        }
        let Some(handler) = state.config.handlers.of(&claimed.meta.kind) else {
            unhandled(context, &claimed);
            continue;
        };
        let running = RunningJob {
            lease: claimed.lease,
            meta: claimed.meta.clone(),
            started: Instant::now(),
            deadline: handler.deadline(state.config.deadline),
            backoff: handler.backoff(&state.config.backoff).clone(),
            overrun: if handler.is_in_transaction() {
                Overrun::Await
            } else {
                Overrun::GiveAway
            },
            signal: Arc::default(),
        };
        let signal = Arc::clone(&running.signal);
        *lock(&slot_state.running) = Some(running.clone());
        let attempted = handler.attempt(claimed, Arc::clone(&signal));
        *lock(&slot_state.running) = None;
        if signal.given_away.swap(true, Ordering::AcqRel) {
            log::warn!(
                "{state} job={}: finished after its deadline; result rejected",
                running.meta.id
            );
            return;
        }
        match attempted {
            AttemptResult::Judge(outcome) => conclude(context, &running, outcome),
            AttemptResult::Settled => {
                state.counts.done.fetch_add(1, Ordering::Relaxed);
                _ = context.settle.send(Message::LeaseEnded {
                    lease: running.lease,
                });
                record_end(context, running.lease, &running.meta.kind, AttemptEnd::Done);
                state.count_finished(Some(running.started.elapsed()));
            }
            AttemptResult::Lost => {
                state.counts.lost.fetch_add(1, Ordering::Relaxed);
                _ = context.settle.send(Message::LeaseEnded {
                    lease: running.lease,
                });
                record_end(
                    context,
                    running.lease,
                    &running.meta.kind,
                    AttemptEnd::Unrun,
                );
                state.count_finished(Some(running.started.elapsed()));
            }
        }
        if signal.replaced.load(Ordering::Acquire) {
            return;
        }
    }
}

/// Returns a job that no slot started, before its lease ends.
pub(crate) fn return_unstarted(context: &SlotContext, claimed: &ClaimedJob) {
    let (lease, kind) = (claimed.lease, &claimed.meta.kind);
    _ = context.settle.send(Message::Unstarted {
        lease,
        job: claimed.meta.id,
    });
    record_end(context, lease, kind, AttemptEnd::Unrun);
    context.state.count_finished(None);
}

/// Judges an outcome and sends the verdict to the settler.
pub(crate) fn conclude(context: &SlotContext, running: &RunningJob, outcome: Outcome) {
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
    let reports = breakers.note(lease, kind, attempt, Instant::now());
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
        Verdict::Dead { cause, .. } if *cause != DeathCause::Manual => flood(&context.state),
        Verdict::Dead { .. }
        | Verdict::Done
        | Verdict::Retry { .. }
        | Verdict::Snooze { .. }
        | Verdict::Outage { .. } => None,
    };
    let settlement = Settlement {
        lease: running.lease,
        meta: running.meta.clone(),
        run_time: running.started.elapsed(),
        verdict: match &context.state.config.redact {
            Some(redact) => verdict.redacted(&**redact),
            None => verdict,
        },
        in_outage,
        cause,
        age: running.meta.age + running.meta.claimed.elapsed(),
    };
    // The settler outlives the slots unless the worker was dropped. Then the lease expires and the
    // job is retried.
    _ = context.settle.send(Message::Settled(settlement));
    for report in reports.into_iter().chain(flooded) {
        _ = context.settle.send(Message::Breaker(report));
    }
    context
        .state
        .count_finished(Some(running.started.elapsed()));
}

/// Counts a letter. Opens the queue's breaker if the flood guard trips.
fn flood(state: &State) -> Option<BreakerReport> {
    let mut guard = lock(&state.flood);
    let guard = guard.as_mut()?;
    let now = Instant::now();
    let message = guard.is_over(now).then(|| guard.message())?;
    state.breakers.flood(&message, now)
}

/// Records the end of an attempt without a verdict.
fn record_end(context: &SlotContext, lease: LeaseId, kind: &str, attempt: AttemptEnd<'_>) {
    let reports = context
        .state
        .breakers
        .note(lease, kind, attempt, Instant::now());
    for report in reports {
        _ = context.settle.send(Message::Breaker(report));
    }
}

/// Dead-letters a job without a handler. The claim skips such kinds, unless a kind was renamed in
/// the database.
fn unhandled(context: &SlotContext, claimed: &ClaimedJob) {
    let kind = &claimed.meta.kind;
    let error = ErrorReport::new("Unhandled", format!("no handler for kind `{kind}`"), None);
    let running = RunningJob {
        lease: claimed.lease,
        meta: claimed.meta.clone(),
        started: Instant::now(),
        deadline: context.state.config.deadline,
        backoff: context.state.config.backoff.clone(),
        overrun: Overrun::GiveAway,
        signal: Arc::default(),
    };
    conclude(context, &running, Outcome::Unhandled(error));
}
