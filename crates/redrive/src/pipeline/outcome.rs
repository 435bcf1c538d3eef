//! Outcomes: why an attempt did not succeed, for the metrics, the breakers and the verdict.

use std::time::Duration;

use crate::job::death_cause::DeathCause;
use crate::job::disposition::Disposition;
use crate::job::error_report::ErrorReport;
use crate::job::failure::Failure;
use crate::job::words::words;

words! {
    /// Why an attempt failed. The words are the values of the metric label `cause`.
    pub(crate) enum FailureCause is "cause" {
        Error = "error",
        Rejected = "rejected",
        Panic = "panic",
        Timeout = "timeout",
        Undecodable = "undecodable",
        /// The statement that reaps a lease counts it.
        WorkerLost = "worker_lost",
        Outage = "outage",
    }
}

/// The result of an attempt that did not succeed.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// The error, and the next step, unless the attempts are used up. Boxed, because a large error slows a `Result`.
    pub(crate) failure: Box<Failure>,
    pub(crate) by: FailedBy,
}

/// What made an attempt fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailedBy {
    Handler,
    Panic,
    /// The handler exceeded its deadline. It may still run; its result will be rejected.
    Deadline,
    /// The payload does not match the handler's type. Another program may read it, if there is to be a retry.
    Payload,
    /// The job was claimed after its time to start. No handler ran.
    Expiry,
    /// The handler's transaction could not begin, for want of a connection for example. No handler ran.
    NotBegun,
}

impl Outcome {
    /// Returns the outcome of an attempt that did not end with a failure of its handler.
    pub(crate) fn of(by: FailedBy, report: ErrorReport) -> Outcome {
        let disposition = match by {
            FailedBy::Handler | FailedBy::Panic | FailedBy::Deadline => Disposition::Retry,
            FailedBy::Payload | FailedBy::Expiry => Disposition::Reject,
            FailedBy::NotBegun => Disposition::Interrupted,
        };
        let failure = Box::new(Failure::new(disposition, report));
        Outcome { failure, by }
    }

    pub(crate) fn timed_out(deadline: Duration) -> Outcome {
        let message = format!("exceeded its deadline of {deadline:?}");
        Outcome::of(
            FailedBy::Deadline,
            ErrorReport::new("Timeout", message, None),
        )
    }

    /// Whether a handler ran. Otherwise the outcome shows nothing about the dependency of the job.
    pub(crate) fn has_run(&self) -> bool {
        matches!(
            self.by,
            FailedBy::Handler | FailedBy::Panic | FailedBy::Deadline
        )
    }

    /// Whether the worker interrupted the attempt, which shows nothing about the dependency of the job.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.failure.disposition == Disposition::Interrupted
    }

    pub(crate) fn is_outage(&self) -> bool {
        self.failure.disposition == Disposition::Outage
    }

    /// Returns the cause to count, `None`: the handler snoozed the job, or none ran; and the cause of death, if the job dies
    /// of this attempt.
    pub(crate) fn causes(&self) -> (Option<FailureCause>, DeathCause) {
        use Disposition::{Interrupted, Outage, Reject, Retry, RetryAfter, Snooze};
        use FailureCause as Failed;
        match self.by {
            FailedBy::Handler => match self.failure.disposition {
                Retry | RetryAfter(_) => (Some(Failed::Error), DeathCause::Exhausted),
                Reject => (Some(Failed::Rejected), DeathCause::Rejected),
                Outage => (Some(Failed::Outage), DeathCause::Exhausted),
                Snooze(_) | Interrupted => (None, DeathCause::Exhausted),
            },
            FailedBy::Panic => (Some(Failed::Panic), DeathCause::Exhausted),
            FailedBy::Deadline => (Some(Failed::Timeout), DeathCause::Timeout),
            FailedBy::Payload => (Some(Failed::Undecodable), DeathCause::Undecodable),
            FailedBy::Expiry => (None, DeathCause::Expired),
            FailedBy::NotBegun => (None, DeathCause::Exhausted),
        }
    }

    /// Applies the program's redaction hook to the error, if it has one.
    pub(crate) fn redacted(
        mut self,
        hook: Option<&(dyn Fn(&str) -> String + Send + Sync)>,
    ) -> Self {
        if let Some(redact) = hook {
            self.failure.report = self.failure.report.redacted(redact);
        }
        self
    }
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Outcome {
        Outcome {
            failure: Box::new(failure),
            by: FailedBy::Handler,
        }
    }
}
