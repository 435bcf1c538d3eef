//! Failures: the result of a handler that did not succeed.
//!
//! `?` in a handler means "retry later". Only a rejection gives up.

use std::any::type_name;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::job::caught::{BoxedError, ErrorValue};
use crate::job::deciding_error::{ErrorRule, Mark, boxed, class_of};
use crate::job::disposition::Disposition;
use crate::job::error_report::{ErrorReport, MAX_CLASS_BYTES, MAX_DETAIL_BYTES, clip};
use crate::job::name;
use crate::job::setters::setters;

/// A failed attempt: an error and what should happen next.
///
/// Any error converts into a failure that asks for a retry, so `?` works in handlers:
///
/// ```
/// use redrive::{Failure, Job};
///
/// fn parse(job: &Job<String>) -> Result<(), Failure> {
///     let n: i64 = job.payload().parse()?; // any error: retry, with backoff
///     if n < 0 {
///         return Err(Failure::reject("a negative number").class("Negative")); // never again
///     }
///     Ok(())
/// }
///
/// assert!(parse(&Job::sample("7".to_string())).is_ok());
/// assert!(parse(&Job::sample("-7".to_string())).is_err());
/// ```
///
/// Errors without a type of their own, such as those of `anyhow`, convert with [`Failure::any`]. A
/// [`Rejection`](crate::Rejection) or an [`Outage`](crate::Outage) anywhere among the causes decides
/// what follows, and so do [`HandlerOptions::reject_on`](crate::HandlerOptions::reject_on) and its like.
///
/// Like `anyhow::Error`, it does not implement `Error`, so that this conversion can exist.
#[derive(Clone, Debug)]
#[must_use]
pub struct Failure {
    pub(crate) disposition: Disposition,
    pub(crate) report: ErrorReport,
    /// The dependency that is down, for [`Disposition::Outage`].
    pub(crate) dependency: Option<Box<str>>,
    /// The error, unless the handler said more than that. Boxed, because a large error slows a `Result`.
    pub(crate) error: Option<Arc<ErrorValue>>,
}

impl Failure {
    pub(crate) fn new(disposition: Disposition, report: ErrorReport) -> Failure {
        Failure {
            disposition,
            report,
            dependency: None,
            error: None,
        }
    }

    /// The failure of an error that a handler returned.
    fn of(class: &str, error: BoxedError) -> Failure {
        let mark = Mark::of(&*error);
        let class = mark.map_or(class, |mark| &mark.class);
        Failure {
            disposition: mark.map_or(Disposition::Retry, |mark| mark.disposition),
            report: ErrorReport::of(class, &*error),
            dependency: mark.and_then(|mark| mark.dependency.clone()),
            error: Some(Arc::new(ErrorValue(error))),
        }
    }

    /// Applies the rules of the handler to an error that decides nothing itself: the first one that
    /// concerns it.
    pub(crate) fn ruled(mut self, rules: &[ErrorRule]) -> Failure {
        if self.disposition == Disposition::Retry
            && let Some(error) = &self.error
            && let Some(rule) = rules.iter().find(|rule| rule.concerns(&***error))
        {
            self.disposition = rule.disposition;
            self.dependency.clone_from(&rule.dependency);
        }
        self
    }

    /// The failure of an attempt that the worker interrupted. A handler that rejected or put off its
    /// job has decided.
    pub(crate) fn interrupted(mut self) -> Failure {
        if let Disposition::Retry | Disposition::RetryAfter(_) = self.disposition {
            self.disposition = Disposition::Interrupted;
        }
        self
    }

    /// The same failure without a retry.
    pub(crate) fn rejected(mut self) -> Failure {
        self.disposition = Disposition::Reject;
        self
    }

    /// Asks for a retry, with a message instead of an error value.
    pub fn retry(message: impl Into<String>) -> Failure {
        let report = ErrorReport::new("Retry", message.into(), None);
        Failure::new(Disposition::Retry, report)
    }

    /// Dead-letters the job at once, with the cause `rejected`. Use it when no retry can help, and a
    /// [`Rejection`](crate::Rejection) for an error.
    pub fn reject(message: impl Into<String>) -> Failure {
        let report = ErrorReport::new("Rejected", message.into(), None);
        Failure::new(Disposition::Reject, report)
    }

    /// Converts an error of any kind: of `anyhow` or `eyre`, a `Box<dyn Error>`, a `String`, a `&str`.
    ///
    /// It means what `?` means for an error with a type: a retry, unless something among the causes
    /// decides otherwise. The letter has the message, the chain of causes and, as its class, the type
    /// of the first cause, if its `Debug` tells it.
    ///
    /// ```
    /// use redrive::{Failure, Job};
    ///
    /// # fn call_gateway(_: u32) -> anyhow::Result<()> { anyhow::bail!("no route to host") }
    /// fn charge(job: &Job<u32>) -> Result<(), Failure> {
    ///     call_gateway(*job.payload()).map_err(Failure::any)?;
    ///     Ok(())
    /// }
    /// # assert_eq!(charge(&Job::sample(7)).unwrap_err().message(), "no route to host");
    /// ```
    pub fn any<E: Into<BoxedError> + 'static>(error: E) -> Failure {
        let error = boxed(error);
        let class = class_of::<E>(&*error).unwrap_or_else(|| "Error".into());
        Failure::of(&class, error)
    }

    /// Runs the job again after `delay`, without counting the attempt. At most 30 days.
    pub fn snooze(delay: Duration) -> Failure {
        let report = ErrorReport::new("Snoozed", String::new(), None);
        Failure::new(Disposition::Snooze(delay), report)
    }

    /// Reports that a dependency is down.
    ///
    /// The attempt does not count. The job waits until the dependency recovers, for at most 24
    /// hours; after that, an outage counts as an ordinary failure. Five outages in a row (see
    /// [`breaker_threshold`](crate::WorkerBuilder::breaker_threshold)) open the breaker for all
    /// jobs with the same [`dependency`](Failure::dependency). While it is open, workers run only a
    /// single probe job from time to time.
    ///
    /// ```
    /// use redrive::{Failure, Job};
    ///
    /// fn pay(job: &Job<u32>) -> Result<(), Failure> {
    ///     match std::net::TcpStream::connect("127.0.0.1:1") {
    ///         Ok(_gateway) => Ok(()),
    ///         Err(error) => Err(Failure::outage(error.to_string()).dependency("payments-api")),
    ///     }
    /// }
    ///
    /// assert!(pay(&Job::sample(7)).is_err());
    /// ```
    pub fn outage(message: impl Into<String>) -> Failure {
        let report = ErrorReport::new("Outage", message.into(), None);
        Failure::new(Disposition::Outage, report)
    }

    /// Names the dependency of an [`outage`](Failure::outage). Its breaker affects only the kinds
    /// that need it, in every queue.
    ///
    /// Defaults to the dependency of the kind
    /// ([`HandlerOptions::dependency`](crate::HandlerOptions::dependency)), or else to the whole
    /// queue, and so does a name that begins with `queue:`. Keeps up to 100 characters and drops control
    /// characters. Has no effect on other failures.
    pub fn dependency(mut self, name: impl Into<String>) -> Failure {
        self.dependency = name::kept_dependency(&name.into());
        self
    }

    /// Sets the delay before the next attempt, instead of the backoff of the kind. At most 30 days.
    /// Has no effect on rejections and outages.
    pub fn after(mut self, delay: Duration) -> Failure {
        self.disposition = match self.disposition {
            Disposition::Retry | Disposition::RetryAfter(_) => Disposition::RetryAfter(delay),
            Disposition::Snooze(_) => Disposition::Snooze(delay),
            kept @ (Disposition::Reject | Disposition::Outage | Disposition::Interrupted) => kept,
        };
        self
    }

    setters! {
        /// Sets the class of the error, which determines its failure group. Defaults to the type of the
        /// converted error.
        pub fn class(self, class: impl Into<String>) =>
            self.report.class = clip(class.into(), MAX_CLASS_BYTES).into();

        /// Sets the key of the failure group, in place of the message and the stack trace.
        ///
        /// Failures of the same queue, kind and class with the same key are one group, whatever they say.
        /// Defaults to the masked message. Keeps up to 100 characters and drops control characters; an
        /// empty key has no effect.
        ///
        /// ```
        /// use redrive::Failure;
        ///
        /// let _ = Failure::retry("carrier answered: maintenance until Tuesday").failure_key("carrier closed");
        /// ```
        pub fn failure_key(self, key: impl Into<String>) => self.report.key = name::kept(&key.into());
    }

    /// Adds a detail for the letter, such as a response body. It stands before the causes of a converted error.
    pub fn detail(mut self, detail: impl Into<String>) -> Failure {
        let mut detail = detail.into();
        if let Some(before) = &self.report.detail {
            detail = format!("{detail}\n{before}");
        }
        self.report.detail = Some(clip(detail, MAX_DETAIL_BYTES).into());
        self
    }

    /// Returns what the handler asks for, before the rules of its handler.
    ///
    /// ```
    /// use redrive::Failure;
    /// use redrive::testing::Decision;
    ///
    /// assert_eq!(Failure::reject("never").decision(), Decision::Reject);
    /// ```
    pub fn decision(&self) -> Disposition {
        self.disposition
    }

    /// Returns the class of the error, such as the name of its type.
    pub fn error_class(&self) -> &str {
        &self.report.class
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        &self.report.message
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::of(type_name::<E>(), Box::new(error))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.report.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::error_report::MAX_MESSAGE_BYTES;

    #[test]
    fn a_dependency_and_a_group_key_are_names_that_the_database_takes() {
        for (given, kept) in [
            ("payments-api", Some("payments-api")),
            (" pay\0ments\n", Some("payments")),
            ("\t", None),
        ] {
            let failure = Failure::outage("down").dependency(given);
            assert_eq!(failure.dependency.as_deref(), kept, "{given:?}");
            let failure = failure.failure_key(given);
            assert_eq!(failure.report.key.as_deref(), kept, "{given:?}");
        }
        let of_another_queue = Failure::outage("down").dependency("\0queue:other");
        assert_eq!(of_another_queue.dependency, None);
        let long = Failure::outage("down").dependency("x".repeat(1000));
        assert_eq!(long.dependency.map(|name| name.len()), Some(100));
    }

    #[test]
    fn a_detail_is_added_to_the_causes_and_to_a_long_message() {
        let long = format!("{}{}", "x".repeat(5_000), "end");
        let report = Failure::reject(long.clone()).detail("1").detail("2").report;
        assert!(report.message.len() <= MAX_MESSAGE_BYTES);
        let whole = format!("2\n1\n{long}");
        assert_eq!(report.detail.as_deref(), Some(&*whole));
        let refused = anyhow::Error::new(fmt::Error).context("refused");
        let detail = Failure::any(refused).detail("told").report.detail;
        let detail = detail.expect("a detail");
        assert!(detail.starts_with("told\ncaused by: "), "{detail}");
    }

    #[test]
    fn after_keeps_a_rejection_a_rejection() {
        let delay = Duration::from_secs(9);
        for (failure, kept) in [
            (Failure::retry("later"), Disposition::RetryAfter(delay)),
            (Failure::reject("never"), Disposition::Reject),
            (Failure::outage("down"), Disposition::Outage),
            (Failure::snooze(Duration::ZERO), Disposition::Snooze(delay)),
        ] {
            assert_eq!(failure.after(delay).disposition, kept);
        }
    }
}
