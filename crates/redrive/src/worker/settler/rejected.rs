//! Replaces verdicts that the database rejects.

use crate::error::Error;
use crate::job::error_report::ErrorReport;
use crate::pipeline::judge::JudgeContext;
use crate::pipeline::outcome::Outcome;
use crate::pipeline::settlement::Settlement;
use crate::worker::own_transaction::not_accepted;
use crate::worker::state::State;

/// Returns the verdict without the texts of its error and without its checkpoint, which the database may have rejected.
pub(super) fn with_plain_report(settlement: &Settlement) -> Settlement {
    let message = "the database rejected the error of this job";
    let report = ErrorReport::new("unrecorded", message.to_owned(), None);
    Settlement {
        report: settlement.report.as_ref().map(|_| report),
        checkpoint: None,
        ..settlement.clone()
    }
}

/// Returns the verdict on a finished job whose follow-ups were rejected: its attempt failed.
pub(super) fn failed(settlement: &Settlement, error: &Error, state: &State) -> Settlement {
    let (meta, config) = (&settlement.meta, &state.config);
    let failed = Outcome::from(not_accepted(error));
    let backoff = match state.handlers.of(&meta.kind) {
        Some(handler) => handler.options.backoff_or(&config.backoff),
        None => &config.backoff,
    };
    let failed = failed.redacted(config.hooks.redact.as_deref());
    // The database knows whether the job was cancelled.
    let at = JudgeContext::of(meta, backoff, fastrand::f64());
    let checkpoint = || settlement.checkpoint.clone();
    settlement.clone().judged(Err(failed), &at, checkpoint)
}
