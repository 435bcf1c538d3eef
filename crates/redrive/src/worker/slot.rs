//! A slot: a thread that runs handlers, one job at a time.

use std::sync::Arc;
use std::time::Duration;

use crate::cause::Cause;
use crate::claim::{Claimed, LeaseId};
use crate::error::{Error, Result};
use crate::failure::Story;
use crate::floor::atomic::Ordering;
use crate::floor::channel::{Receiver, Sender};
use crate::floor::{Instant, thread};
use crate::judge::{Circumstances, Outcome, Verdict, judge};
use crate::reason::Reason;
use crate::settle::Settlement;
use crate::worker::gates::{Attempt, Report};
use crate::worker::handlers::Attempted;
use crate::worker::settling::Message;
use crate::worker::state::{Overrun, Running, Seat, State, lock};
use crate::worker::watched::watched;

/// What every slot works with.
#[derive(Clone)]
pub(crate) struct Bench {
    pub(crate) state: Arc<State>,
    pub(crate) jobs: Receiver<Claimed>,
    pub(crate) settle: Sender<Message>,
    /// Told by each slot at its end.
    pub(crate) left: Sender<()>,
}

/// Starts a slot.
pub(crate) fn start(bench: &Bench) -> Result<()> {
    let seat = Arc::new(Seat::default());
    let number = {
        let mut seats = lock(&bench.state.seats);
        seats.push(Arc::clone(&seat));
        seats.len()
    };
    let bench = bench.clone();
    thread::Builder::new()
        .name(format!("redrive-slot-{number}"))
        .spawn(move || {
            watched(&bench.state, &format!("slot {number}"), || {
                work(&bench, &seat);
            });
            lock(&bench.state.seats).retain(|other| !Arc::ptr_eq(other, &seat));
            // Full means that the one who waits will look anyway.
            _ = bench.left.try_send(());
        })
        .map_err(|error| {
            Error::unavailable(format!("could not start slot {number}")).caused_by(error)
        })?;
    Ok(())
}

/// Runs jobs until no more come, or until a job was taken from this slot: then another has its
/// place already.
fn work(bench: &Bench, seat: &Seat) {
    let state = &bench.state;
    for claimed in &bench.jobs {
        // The worker stops, its leases may be somebody else's by now, or a breaker is open: start
        // nothing.
        let is_gated = state.gates.stops(claimed.lease, &claimed.facts.kind);
        if is_gated || state.stopping.is_ended() || !state.trust.holds(Instant::now()) {
            _ = bench.settle.send(Message::Unrun {
                lease: claimed.lease,
            });
            let (lease, kind) = (claimed.lease, &claimed.facts.kind);
            report(bench, lease, kind, Attempt::Unrun);
            state.finished(None);
            continue;
        }
        let Some(handler) = state.config.handlers.of(&claimed.facts.kind) else {
            unhandled(bench, &claimed);
            continue;
        };
        let running = Running {
            lease: claimed.lease,
            facts: claimed.facts.clone(),
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
        *lock(&seat.running) = Some(running.clone());
        let attempted = handler.attempt(claimed, Arc::clone(&signal));
        *lock(&seat.running) = None;
        if signal.given_away.swap(true, Ordering::AcqRel) {
            log::warn!(
                "job {} of queue `{}` ended after its deadline; its result is refused",
                running.facts.id,
                state.queue()
            );
            return;
        }
        match attempted {
            Attempted::Judge(outcome) => conclude(bench, &running, outcome),
            Attempted::Settled => {
                state.counts.done.fetch_add(1, Ordering::Relaxed);
                _ = bench.settle.send(Message::Gone {
                    lease: running.lease,
                });
                report(bench, running.lease, &running.facts.kind, Attempt::Done);
                state.finished(Some(running.started.elapsed()));
            }
            Attempted::Lost => {
                state.counts.lost.fetch_add(1, Ordering::Relaxed);
                _ = bench.settle.send(Message::Gone {
                    lease: running.lease,
                });
                report(bench, running.lease, &running.facts.kind, Attempt::Unrun);
                state.finished(Some(running.started.elapsed()));
            }
        }
        if signal.replaced.load(Ordering::Acquire) {
            return;
        }
    }
}

/// Hands a job back that no slot began, before its lease ends.
pub(crate) fn return_unbegun(bench: &Bench, claimed: &Claimed) {
    let (lease, kind) = (claimed.lease, &claimed.facts.kind);
    _ = bench.settle.send(Message::Unbegun {
        lease,
        job: claimed.facts.id,
    });
    report(bench, lease, kind, Attempt::Unrun);
    bench.state.finished(None);
}

/// Judges an outcome and hands the verdict to the settler.
pub(crate) fn conclude(bench: &Bench, running: &Running, outcome: Outcome) {
    let (lease, kind) = (running.lease, &running.facts.kind);
    let outage = outcome.outage();
    let in_outage = outage.is_some();
    let cause = Cause::of(&outcome);
    let gates = &bench.state.gates;
    let (park, reports) = match outage {
        Some((dependency, message)) => {
            let attempt = Attempt::Outage {
                dependency,
                message,
            };
            let reports = gates.note(lease, kind, attempt, Instant::now());
            (gates.park(kind, dependency), reports)
        }
        None => {
            let attempt = match outcome {
                Outcome::Done => Attempt::Done,
                Outcome::Failed(_)
                | Outcome::Panicked(_)
                | Outcome::Undecodable(_)
                | Outcome::Unhandled(_)
                | Outcome::TimedOut(_) => Attempt::Other,
            };
            (
                Duration::ZERO,
                gates.note(lease, kind, attempt, Instant::now()),
            )
        }
    };
    let verdict = judge(
        outcome,
        &Circumstances {
            attempt: running.facts.attempt,
            max_attempts: running.facts.max_attempts,
            cancelled: running.signal.by_operator.load(Ordering::Relaxed),
            backoff: &running.backoff,
            outage_age: running.facts.outage_age,
            park,
            random: fastrand::f64(),
        },
    );
    let flooded = match &verdict {
        Verdict::Dead { reason, .. } if *reason != Reason::Manual => flood(&bench.state),
        Verdict::Dead { .. }
        | Verdict::Done
        | Verdict::Retry { .. }
        | Verdict::Snooze { .. }
        | Verdict::Outage { .. } => None,
    };
    let settlement = Settlement {
        lease: running.lease,
        facts: running.facts.clone(),
        run_time: running.started.elapsed(),
        verdict: match &bench.state.config.redact {
            Some(redact) => verdict.redacted(&**redact),
            None => verdict,
        },
        in_outage,
        cause,
        age: running.facts.age + running.facts.claimed.elapsed(),
    };
    // The settler outlives the slots, but for a worker that was dropped without a stop: then
    // the lease runs out and the job comes back.
    _ = bench.settle.send(Message::Settled(settlement));
    for report in reports.into_iter().chain(flooded) {
        _ = bench.settle.send(Message::Report(report));
    }
    bench.state.finished(Some(running.started.elapsed()));
}

/// Takes note of a letter; opens the breaker of the queue when there are more than the guard allows.
fn flood(state: &State) -> Option<Report> {
    let mut guard = lock(&state.flood);
    let guard = guard.as_mut()?;
    let now = Instant::now();
    let message = guard.is_over(now).then(|| guard.message())?;
    state.gates.flood(&message, now)
}

/// Takes note of an end that has no verdict, for the breakers.
fn report(bench: &Bench, lease: LeaseId, kind: &str, attempt: Attempt<'_>) {
    let reports = bench.state.gates.note(lease, kind, attempt, Instant::now());
    for report in reports {
        _ = bench.settle.send(Message::Report(report));
    }
}

/// A job of a kind that has no handler: it is not claimed, but handlers may have been rearranged
/// by a rename in the database.
fn unhandled(bench: &Bench, claimed: &Claimed) {
    let kind = &claimed.facts.kind;
    let story = Story::new("Unhandled", format!("no handler for kind `{kind}`"), None);
    let running = Running {
        lease: claimed.lease,
        facts: claimed.facts.clone(),
        started: Instant::now(),
        deadline: bench.state.config.deadline,
        backoff: bench.state.config.backoff.clone(),
        overrun: Overrun::GiveAway,
        signal: Arc::default(),
    };
    conclude(bench, &running, Outcome::Unhandled(story));
}
