//! Turns the end of an attempt into a settlement: the verdict, and what the breakers make of it.

use std::sync::Arc;
use std::time::Duration;

use crate::job::death_cause::DeathCause;
use crate::job::job::Signal;
use crate::pipeline::judge::{JudgeContext, Verdict, judge};
use crate::pipeline::outcome::Outcome;
use crate::pipeline::settlement::Settlement;
use crate::sync::Instant;
use crate::sync::atomic::Ordering;
use crate::worker::breaker_state::{AttemptEnd, BreakerReport};
use crate::worker::handlers::JobEnd;
use crate::worker::latch::lock;
use crate::worker::observer;
use crate::worker::slot_state::RunningJob;
use crate::worker::state::State;

/// The end of an attempt at `now`.
pub(crate) struct EndedAttempt {
    pub(crate) end: JobEnd,
    pub(crate) run_time: Duration,
    pub(crate) now: Instant,
}

impl EndedAttempt {
    pub(crate) fn of(end: JobEnd, run_time: Duration, now: Instant) -> EndedAttempt {
        EndedAttempt { end, run_time, now }
    }

    /// The end of a job of a running batch that the handler has decided about.
    pub(crate) fn decided(
        signal: &Signal,
        run_time: Duration,
        now: Instant,
    ) -> Option<EndedAttempt> {
        let end = signal.decision.take()?.map_err(Outcome::Failed);
        Some(EndedAttempt::of(end, run_time, now))
    }
}

/// Returns the run time of each job of a batch: its share, so that the sum of all is the time of the
/// slot.
pub(crate) fn share(started: Instant, jobs: usize, now: Instant) -> Duration {
    let ran = now.saturating_duration_since(started);
    match u32::try_from(jobs) {
        Ok(0 | 1) | Err(_) => ran,
        Ok(jobs) => ran / jobs,
    }
}

/// Judges the end of an attempt. Returns the settlement, and changes of breakers to send after it.
pub(crate) fn conclude(
    state: &State,
    running: &RunningJob,
    ended: EndedAttempt,
) -> (Settlement, Vec<BreakerReport>) {
    state.count_unwritten();
    let (lease, kind, now) = (running.lease, &running.meta.kind, ended.now);
    let has_run = ended.end.as_ref().err().is_none_or(Outcome::has_run);
    let (follow_ups, failed) = match ended.end {
        Ok(follow_ups) => (follow_ups, None),
        Err(outcome) => (
            Vec::new(),
            Some(decided(state, running, outcome).classify()),
        ),
    };
    // Before a breaker takes the message.
    let failed = failed.map(|failed| match &state.config.hooks.redact {
        Some(redact) => failed.redacted(&**redact),
        None => failed,
    });
    let breakers = &state.breakers;
    let attempt = match &failed {
        None => AttemptEnd::Done,
        Some(failed) if failed.is_outage() => AttemptEnd::Outage {
            dependency: failed.dependency.as_deref(),
            message: &failed.report.message,
        },
        Some(failed) if has_run && !failed.is_interrupted() => AttemptEnd::Other,
        Some(_) => AttemptEnd::Unrun,
    };
    let reports = breakers.note(lease, kind, attempt, now);
    let outage = failed.as_ref().filter(|failed| failed.is_outage());
    let park = outage.map_or(Duration::ZERO, |failed| {
        breakers.park(kind, failed.dependency.as_deref())
    });
    let cause = failed.as_ref().and_then(|failed| failed.cause);
    let error = failed.as_ref().and_then(|failed| failed.error.clone());
    let verdict = judge(
        failed,
        &JudgeContext {
            attempt: running.meta.attempt,
            max_attempts: running.meta.max_attempts,
            cancelled: running.signal.by_operator.load(Ordering::Relaxed),
            backoff: running.options.backoff_or(&state.config.backoff),
            outage_age: running.meta.outage_age,
            park,
            random: fastrand::f64(),
        },
    );
    let flooded = match &verdict {
        Verdict::Dead { cause, .. } if counts_as_flood(*cause) => flood(state, now),
        Verdict::Dead { .. }
        | Verdict::Done
        | Verdict::Retry { .. }
        | Verdict::Snooze { .. }
        | Verdict::Refund { .. }
        | Verdict::Outage { .. } => None,
    };
    let checkpoint = match &verdict {
        Verdict::Done => None,
        Verdict::Retry { .. }
        | Verdict::Snooze { .. }
        | Verdict::Refund { .. }
        | Verdict::Outage { .. }
        | Verdict::Dead { .. } => running.signal.checkpoints.headers(),
    };
    if let Some(observer) = &state.config.hooks.observer {
        let error = error.as_deref().map(|error| &**error);
        observer::tell(observer, running, &verdict, ended.run_time, error);
    }
    let settlement = Settlement {
        lease: running.lease,
        meta: Arc::clone(&running.meta),
        run_time: ended.run_time,
        has_run,
        verdict,
        cause,
        age: running.meta.age + now.saturating_duration_since(running.meta.claimed),
        follow_ups,
        keep_done: running.options.keep_done,
        checkpoint,
    };
    (settlement, reports.into_iter().chain(flooded).collect())
}

/// Applies the options of the handler to a failure. A stop that asked the handler to end is the reason why
/// it failed.
fn decided(state: &State, running: &RunningJob, outcome: Outcome) -> Outcome {
    let ruled = running.options.ruled(outcome, state.sees_other_version());
    match (ruled, running.signal.by_stop.load(Ordering::Relaxed)) {
        (Outcome::Failed(failure), true) => Outcome::Failed(failure.interrupted()),
        (outcome, _) => outcome,
    }
}

/// Whether a letter of this cause counts for the flood guard: a pause would not help a job that an
/// operator cancelled or that was too late.
fn counts_as_flood(cause: DeathCause) -> bool {
    !matches!(cause, DeathCause::Manual | DeathCause::Expired)
}

/// Counts a letter. Opens the queue's breaker if the flood guard trips.
fn flood(state: &State, now: Instant) -> Option<BreakerReport> {
    let mut guard = lock(&state.config.flood);
    let guard = guard.as_mut()?;
    let message = guard.is_over(now).then(|| guard.message())?;
    state.breakers.flood(&message, now)
}
