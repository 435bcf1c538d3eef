//! Turns the end of an attempt into a settlement: the verdict, and what the breakers make of it.

use crate::job::death_cause::DeathCause;
use crate::pipeline::judge::{JudgeContext, Verdict};
use crate::pipeline::outcome::{FailedBy, Outcome};
use crate::pipeline::settlement::Settlement;
use crate::sync::Instant;
use crate::sync::atomic::Ordering;
use crate::worker::breaker_state::{AttemptEnd, BreakerReport};
use crate::worker::handlers::JobEnd;
use crate::worker::observer::{self, Attempt};
use crate::worker::slot_state::{Run, RunningJob};
use crate::worker::state::State;

/// Judges the end of an attempt at `now`. Returns the settlement, and changes of breakers to send after it.
pub(crate) fn conclude(
    state: &State,
    run: &Run,
    running: &RunningJob,
    end: JobEnd,
    now: Instant,
) -> (Settlement, Vec<BreakerReport>) {
    state.count_unwritten();
    let (kind, ran) = (&running.meta.kind, run.share(now));
    let end = end.map_err(|outcome| {
        let failed = ruled(state, run, running, outcome);
        // Before a breaker takes the message.
        failed.redacted(state.config.hooks.redact.as_deref())
    });
    let breakers = &state.breakers;
    let attempt = match &end {
        Ok(_) => AttemptEnd::Done,
        Err(failed) if failed.is_outage() => AttemptEnd::Outage {
            dependency: failed.failure.dependency.as_deref(),
            message: failed.failure.message(),
        },
        Err(failed) if failed.has_run() && !failed.is_interrupted() => AttemptEnd::Other,
        Err(_) => AttemptEnd::Unrun,
    };
    let reports = breakers.note(running.lease, kind, attempt, now);
    let error = end.as_ref().err();
    let error = error.and_then(|failed| failed.failure.error.clone());
    let (meta, options) = (&running.meta, &run.options);
    let backoff = options.backoff_or(&state.config.backoff);
    let at = JudgeContext {
        cancelled: running.signal.by_operator.load(Ordering::Relaxed),
        ..JudgeContext::of(meta, backoff, fastrand::f64())
    };
    let done = Settlement::done(running.lease, meta, ran, run.keep_done, now);
    let settlement = done.judged(end, &at, || running.signal.checkpoints.unstored());
    let counts = matches!(settlement.verdict, Verdict::Dead(cause) if counts_as_flood(cause));
    let flooded = counts.then(|| breakers.note_letter(now)).flatten();
    if let Some(observer) = &state.config.hooks.observer {
        observer::tell(observer, &Attempt::of(&settlement, error));
    }
    (settlement, reports.into_iter().chain(flooded).collect())
}

/// Applies the options of the handler to a failure. A stop that asked the handler to end is the reason why
/// it failed.
fn ruled(state: &State, run: &Run, running: &RunningJob, outcome: Outcome) -> Outcome {
    let is_deploy = state.sees_other_version.load(Ordering::Relaxed);
    let mut outcome = run.options.ruled(outcome, is_deploy);
    if outcome.by == FailedBy::Handler && running.signal.by_stop.load(Ordering::Relaxed) {
        *outcome.failure = outcome.failure.interrupted();
    }
    outcome
}

/// Whether a letter of this cause counts for the flood guard: a pause would not help a job that an
/// operator cancelled or that was too late.
fn counts_as_flood(cause: DeathCause) -> bool {
    !matches!(cause, DeathCause::Manual | DeathCause::Expired)
}
