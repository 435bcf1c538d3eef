//! Outcomes: why an attempt did not succeed, classified once for the metrics, the breakers and the verdict.

use std::sync::Arc;
use std::time::Duration;

use crate::job::caught::ErrorValue;
use crate::job::death_cause::DeathCause;
use crate::job::disposition::Disposition;
use crate::job::error_report::ErrorReport;
use crate::job::failure::Failure;
use crate::pipeline::failure_cause::FailureCause;

/// The result of an attempt that did not succeed.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// The handler returned a failure.
    Failed(Failure),
    /// The handler panicked.
    Panicked(ErrorReport),
    /// The payload does not match the handler's type. Another program may read it, if there is to be a retry.
    Undecodable {
        report: ErrorReport,
        may_retry: bool,
    },
    /// The worker has no handler for the kind.
    Unhandled(ErrorReport),
    /// The job was claimed after its time to start. No handler ran.
    Expired(ErrorReport),
    /// The handler's transaction could not begin, for want of a connection for example. No handler ran.
    NotBegun(ErrorReport),
    /// The handler exceeded its deadline. It may still run; its result will be rejected.
    TimedOut(Duration),
}

/// A classified outcome.
#[derive(Debug)]
pub(crate) struct FailedAttempt {
    /// The cause to count. `None`: the handler snoozed the job, or none ran.
    pub(crate) cause: Option<FailureCause>,
    /// The next step, unless the attempts are used up.
    pub(crate) disposition: Disposition,
    /// The cause of death, if the job dies of this attempt.
    pub(crate) death: DeathCause,
    pub(crate) report: ErrorReport,
    /// The dependency that is down, if the handler named it.
    pub(crate) dependency: Option<Box<str>>,
    /// The error that the handler returned.
    pub(crate) error: Option<Arc<ErrorValue>>,
}

impl FailedAttempt {
    /// Whether the worker interrupted the attempt, which shows nothing about the dependency of the job.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.disposition == Disposition::Interrupted
    }

    pub(crate) fn is_outage(&self) -> bool {
        self.disposition == Disposition::Outage
    }

    /// Applies the program's redaction hook to the error, if it has one.
    pub(crate) fn redacted(
        mut self,
        hook: Option<&(dyn Fn(&str) -> String + Send + Sync)>,
    ) -> Self {
        if let Some(redact) = hook {
            self.report = self.report.redacted(redact);
        }
        self
    }
}

impl Outcome {
    /// Whether a handler ran. Otherwise the outcome shows nothing about the dependency of the job.
    pub(crate) fn has_run(&self) -> bool {
        match self {
            Outcome::Failed(_) | Outcome::Panicked(_) | Outcome::TimedOut(_) => true,
            Outcome::Undecodable { .. }
            | Outcome::Unhandled(_)
            | Outcome::Expired(_)
            | Outcome::NotBegun(_) => false,
        }
    }

    /// Classifies the outcome.
    pub(crate) fn classify(self) -> FailedAttempt {
        use DeathCause::Exhausted;
        use Disposition::{Interrupted, Reject, Retry};
        let (cause, disposition, death, report) = match self {
            Outcome::Failed(failure) => return FailedAttempt::from(failure),
            Outcome::Expired(report) => (None, Reject, DeathCause::Expired, report),
            Outcome::NotBegun(report) => (None, Interrupted, Exhausted, report),
            Outcome::Panicked(report) => (Some(FailureCause::Panic), Retry, Exhausted, report),
            Outcome::Undecodable { report, may_retry } => {
                let next = if may_retry { Retry } else { Reject };
                let cause = Some(FailureCause::Undecodable);
                (cause, next, DeathCause::Undecodable, report)
            }
            Outcome::Unhandled(report) => {
                let cause = Some(FailureCause::Unhandled);
                (cause, Reject, DeathCause::Unhandled, report)
            }
            Outcome::TimedOut(deadline) => {
                let message = format!("exceeded its deadline of {deadline:?}");
                let report = ErrorReport::new("Timeout", message, None);
                let cause = Some(FailureCause::Timeout);
                (cause, Retry, DeathCause::Timeout, report)
            }
        };
        FailedAttempt {
            cause,
            death,
            ..FailedAttempt::from(Failure::new(disposition, report))
        }
    }
}

impl From<Failure> for FailedAttempt {
    fn from(failure: Failure) -> FailedAttempt {
        let (cause, death) = match failure.disposition {
            Disposition::Retry | Disposition::RetryAfter(_) => {
                (Some(FailureCause::Error), DeathCause::Exhausted)
            }
            Disposition::Reject => (Some(FailureCause::Rejected), DeathCause::Rejected),
            Disposition::Outage => (Some(FailureCause::Outage), DeathCause::Exhausted),
            Disposition::Snooze(_) | Disposition::Interrupted => (None, DeathCause::Exhausted),
        };
        FailedAttempt {
            cause,
            disposition: failure.disposition,
            death,
            report: failure.report,
            dependency: failure.dependency,
            error: failure.error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::CATALOGUE;

    #[test]
    fn each_outcome_has_a_cause_of_the_catalogue() {
        let report = || ErrorReport::new("C", "m".to_owned(), None);
        let second = Duration::from_secs(1);
        let failed = CATALOGUE
            .iter()
            .find(|metric| metric.name == "redrive_job_attempts_failed_total")
            .expect("the counter of failed attempts");
        let undecodable = Outcome::Undecodable {
            report: report(),
            may_retry: false,
        };
        for (outcome, expected) in [
            (Outcome::Failed(Failure::snooze(second)), None),
            (Outcome::Expired(report()), None),
            (Outcome::NotBegun(report()), None),
            (Outcome::Failed(Failure::retry("m")), Some("error")),
            (
                Outcome::Failed(Failure::retry("m").after(second)),
                Some("error"),
            ),
            (Outcome::Failed(Failure::reject("m")), Some("rejected")),
            (Outcome::Failed(Failure::outage("m")), Some("outage")),
            (Outcome::Panicked(report()), Some("panic")),
            (undecodable, Some("undecodable")),
            (Outcome::Unhandled(report()), Some("unhandled")),
            (Outcome::TimedOut(second), Some("timeout")),
        ] {
            let shown = format!("{outcome:?}");
            let cause = outcome.classify().cause;
            assert_eq!(cause.map(FailureCause::as_str), expected, "{shown}");
            assert!(expected.is_none_or(|cause| failed.labels[2].values.contains(&cause)));
        }
    }
}
