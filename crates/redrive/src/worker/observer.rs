//! Observers: hooks of the program that see the end of every attempt.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::job::caught::caught;
use crate::job::error_report::ErrorReport;
use crate::job::job::JobId;
use crate::pipeline::judge::Verdict;
use crate::worker::slot_state::RunningJob;

/// The end of an attempt, as [`WorkerBuilder::on_attempt`](crate::WorkerBuilder::on_attempt) sees it.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Attempt<'a> {
    /// The id of the job.
    pub id: JobId,
    /// The queue.
    pub queue: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The number of the attempt, from 1.
    pub number: u32,
    /// How long the handler ran. Of a batch, the share of the job.
    pub duration: Duration,
    /// What follows.
    pub outcome: AttemptOutcome,
    /// The class of the error, after the [redaction hook](crate::WorkerBuilder::redact).
    pub error_class: Option<&'a str>,
    /// The message of the error, after the redaction hook.
    pub error_message: Option<&'a str>,
    /// The error that the handler returned, as it is. `None`: it returned none, or a text.
    pub error: Option<&'a (dyn StdError + Send + Sync + 'static)>,
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
pub(crate) type Observer = Arc<dyn Fn(&Attempt<'_>) + Send + Sync>;

/// Tells the hook of an attempt that ended with this verdict.
pub(crate) fn tell(
    observer: &Observer,
    running: &RunningJob,
    verdict: Verdict,
    report: Option<&ErrorReport>,
    duration: Duration,
    error: Option<&(dyn StdError + Send + Sync + 'static)>,
) {
    let attempt = Attempt {
        id: running.meta.id,
        queue: &running.meta.queue,
        kind: &running.meta.kind,
        number: running.meta.attempt,
        duration,
        outcome: of_verdict(verdict).0,
        error_class: report.map(|report| &*report.class),
        error_message: report.map(|report| &*report.message),
        error,
    };
    if caught(|| observer(&attempt)).is_err() {
        log::warn!("job={}: the hook of its attempts panicked", attempt.id);
    }
}

impl fmt::Debug for Attempt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("number", &self.number)
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}
