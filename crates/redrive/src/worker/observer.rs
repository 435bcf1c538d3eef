//! Observers: hooks of the program that see the end of every attempt.

use std::error::Error as StdError;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::job::caught::{ErrorValue, caught};
use crate::job::job::JobId;
use crate::pipeline::judge::Verdict;
use crate::pipeline::settlement::Settlement;

/// The end of an attempt, as [`WorkerBuilder::on_attempt`](crate::WorkerBuilder::on_attempt) sees it and the
/// [test kit](crate::testing::run_next) returns it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// The id of the job.
    pub id: JobId,
    /// The queue.
    pub queue: String,
    /// The kind.
    pub kind: String,
    /// The number of the attempt, from 1.
    pub number: u32,
    /// How long the handler ran. Of a batch, the share of the job.
    pub duration: Duration,
    /// What follows.
    pub outcome: AttemptOutcome,
    /// The class of the error, after the [redaction hook](crate::WorkerBuilder::redact).
    pub error_class: Option<String>,
    /// The message of the error, after the redaction hook.
    pub error_message: Option<String>,
    error: Option<Arc<ErrorValue>>,
}

impl Attempt {
    pub(crate) fn of(settled: &Settlement, error: Option<Arc<ErrorValue>>) -> Attempt {
        let (meta, report) = (&settled.meta, settled.report.as_ref());
        Attempt {
            id: meta.id,
            queue: meta.queue.to_string(),
            kind: meta.kind.to_string(),
            number: meta.attempt,
            duration: settled.run_time,
            outcome: of_verdict(settled.verdict).0,
            error_class: report.map(|report| report.class.to_string()),
            error_message: report.map(|report| report.message.clone()),
            error,
        }
    }

    /// Returns the error that the handler returned, as it is. `None`: it returned none, or a text.
    pub fn error(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        self.error.as_deref().map(Deref::deref)
    }
}

/// What follows from an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AttemptOutcome {
    /// The job is done.
    Done,
    /// The job runs again, and the attempt counts.
    Retried,
    /// The handler put the job off.
    Snoozed,
    /// A dependency is down. The job runs again.
    Outage,
    /// The worker interrupted the attempt. The job runs again.
    Interrupted,
    /// The job is a dead letter.
    Dead,
}

/// Returns what follows, and after which time if the job runs again.
pub(crate) fn of_verdict(verdict: Verdict) -> (AttemptOutcome, Option<Duration>) {
    use AttemptOutcome::{Dead, Done, Interrupted, Outage, Retried, Snoozed};
    match verdict {
        Verdict::Done => (Done, None),
        Verdict::Retry(delay) => (Retried, Some(delay)),
        Verdict::Snooze(delay) => (Snoozed, Some(delay)),
        Verdict::Outage(delay) => (Outage, Some(delay)),
        Verdict::Refund(delay) | Verdict::Unrun(delay) => (Interrupted, Some(delay)),
        Verdict::Dead(_) => (Dead, None),
    }
}

/// A hook of the program.
pub(crate) type Observer = Arc<dyn Fn(&Attempt) + Send + Sync>;

/// Tells the hook of an attempt.
pub(crate) fn tell(observer: &Observer, attempt: &Attempt) {
    if caught(|| observer(attempt)).is_err() {
        log::warn!("job={}: the hook of its attempts panicked", attempt.id);
    }
}
