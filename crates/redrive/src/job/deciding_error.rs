//! Errors that decide what follows, wherever they are in the chain of causes of the error that a
//! handler returns.

use std::any::type_name;
use std::error::Error as StdError;
use std::fmt;

use crate::job::caught::BoxedError;
use crate::job::disposition::Disposition;
use crate::job::error_report::{chain, class_in};
use crate::job::name;

/// An error that no retry can help: it dead-letters its job at once, with the cause `rejected`.
///
/// It decides from any depth. The handler may return it, or an error that has it among its causes, as
/// those of `anyhow`, `eyre` and `thiserror` do.
///
/// ```
/// use redrive::{Failure, Job, Rejection};
///
/// // Three layers down, in code that knows nothing about jobs.
/// fn rate(currency: &str) -> anyhow::Result<f64> {
///     match currency {
///         "EUR" => Ok(1.0),
///         _ => anyhow::bail!(Rejection::new("no such currency")),
///     }
/// }
///
/// fn charge(job: &Job<String>) -> Result<(), Failure> {
///     rate(job.payload()).map_err(Failure::any)?;
///     Ok(())
/// }
///
/// let failure = charge(&Job::sample("XXX".to_owned())).unwrap_err();
/// assert_eq!(failure.message(), "no such currency");
/// ```
#[derive(Debug)]
pub struct Rejection(Mark);

impl Rejection {
    /// Makes a rejection of an error or a message.
    pub fn new(error: impl Into<BoxedError> + 'static) -> Rejection {
        Rejection(Mark::new(Disposition::Reject, "Rejected", error))
    }
}

/// An error that a dependency is down: its job waits until the dependency recovers, without counting
/// the attempt.
///
/// Like a [`Rejection`], it decides from any depth. See [`Failure::outage`](crate::Failure::outage) for
/// what follows.
#[derive(Debug)]
pub struct Outage(Mark);

impl Outage {
    /// Makes an outage of an error or a message.
    pub fn new(error: impl Into<BoxedError> + 'static) -> Outage {
        Outage(Mark::new(Disposition::Outage, "Outage", error))
    }

    /// Names the dependency, as [`Failure::dependency`](crate::Failure::dependency) does.
    #[must_use]
    pub fn dependency(mut self, name: impl Into<String>) -> Outage {
        self.0.dependency = name::kept_dependency(&name.into());
        self
    }
}

/// The error of a handler that ended because its job was cancelled; see
/// [`Job::check_cancelled`](crate::Job::check_cancelled).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobCancelled;

impl fmt::Display for JobCancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the job was asked to end")
    }
}

impl StdError for JobCancelled {}

/// The decision of an error, as a cause of its own.
///
/// `anyhow` and others hide the type of the error that they box, but not those of its causes.
#[derive(Debug)]
pub(crate) struct Mark {
    pub(crate) disposition: Disposition,
    pub(crate) dependency: Option<Box<str>>,
    pub(crate) class: Box<str>,
    error: BoxedError,
}

impl Mark {
    fn new<E: Into<BoxedError> + 'static>(disposition: Disposition, class: &str, error: E) -> Mark {
        let error = boxed(error);
        Mark {
            disposition,
            dependency: None,
            class: class_of::<E>(&*error).unwrap_or_else(|| class.into()),
            error,
        }
    }

    /// Finds the outermost decision in the chain of an error.
    pub(crate) fn of<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Mark> {
        chain(error).find_map(|link| link.downcast_ref())
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl StdError for Mark {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.error.source()
    }
}

/// An error that shows what its mark shows.
macro_rules! marked {
    ($($error:ident)*) => {$(
        impl fmt::Display for $error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl StdError for $error {
            fn source(&self) -> Option<&(dyn StdError + 'static)> {
                Some(&self.0)
            }
        }
    )*};
}
marked!(Rejection Outage);

/// Boxes an error so that its type can be found again.
pub(crate) fn boxed<E: Into<BoxedError> + 'static>(error: E) -> BoxedError {
    #[cfg(feature = "anyhow")]
    let error = {
        let mut error = Some(error);
        let any: &mut dyn std::any::Any = &mut error;
        let of_anyhow = any.downcast_mut::<Option<anyhow::Error>>();
        if let Some(error) = of_anyhow.and_then(Option::take) {
            return error.reallocate_into_boxed_dyn_error_without_backtrace();
        }
        error
    };
    #[cfg(not(feature = "anyhow"))]
    let error = Some(error);
    error.map_or_else(|| BoxedError::from("no error"), Into::into)
}

/// The class of a boxed error: the name of its type `E`, unless that can be anything. `None`: nothing in
/// it tells more than its message.
pub(crate) fn class_of<E>(error: &(dyn StdError + 'static)) -> Option<Box<str>> {
    let name = type_name::<E>();
    let is_any = [
        "&str",
        "alloc::string::String",
        "anyhow::Error",
        "eyre::Report",
    ]
    .contains(&name)
        || name.contains("dyn ");
    match is_any {
        true => class_in(error),
        false => Some(name.into()),
    }
}

/// What follows from errors of a type in a handler.
#[derive(Clone, Debug)]
pub(crate) struct ErrorRule {
    is: fn(&(dyn StdError + 'static)) -> bool,
    pub(crate) disposition: Disposition,
    pub(crate) dependency: Option<Box<str>>,
}

impl ErrorRule {
    pub(crate) fn of<E: StdError + 'static>(
        disposition: Disposition,
        dependency: Option<&str>,
    ) -> ErrorRule {
        ErrorRule {
            is: |error| error.is::<E>(),
            disposition,
            dependency: dependency.map(Into::into),
        }
    }

    /// Whether an error of the type is in the chain.
    pub(crate) fn concerns(&self, error: &(dyn StdError + 'static)) -> bool {
        chain(error).any(self.is)
    }
}

#[cfg(test)]
mod tests {
    use std::env::VarError::{self, NotPresent};
    use std::num::ParseIntError;
    use std::time::Duration;

    use super::*;
    use crate::job::failure::Failure;

    #[derive(Debug)]
    struct Wrapped(BoxedError);

    impl fmt::Display for Wrapped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("cannot charge")
        }
    }

    impl StdError for Wrapped {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(&*self.0)
        }
    }

    fn parsed() -> ParseIntError {
        "x".parse::<i32>().expect_err("no number")
    }

    /// What a failure of an error says: class, message and causes.
    fn told(failure: &Failure) -> String {
        let report = &failure.report;
        let detail = report.detail.iter().flat_map(|detail| detail.lines());
        let causes = detail.filter_map(|line| line.strip_prefix("caused by: "));
        let parts = [&*report.class, &*report.message].into_iter().chain(causes);
        parts.collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn errors_without_a_type_have_a_class_a_message_and_causes() {
        let order = anyhow::Error::new(parsed()).context("cannot charge");
        let boxed = BoxedError::from(Wrapped(NotPresent.into()));
        let io = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let (digit, variable) = (parsed(), NotPresent);
        for (failure, expected) in [
            (Failure::any("no funds"), "Error | no funds".to_owned()),
            (Failure::any("Card(7)".to_owned()), "Error | Card(7)".into()),
            (
                Failure::any(anyhow::anyhow!("Card(7)")),
                "Error | Card(7)".into(),
            ),
            (
                Failure::any(order.context("order 7")),
                format!("ParseIntError | order 7 | cannot charge | {digit}"),
            ),
            (
                Failure::any(boxed),
                format!("NotPresent | cannot charge | {variable}"),
            ),
            (
                Failure::any(anyhow::Error::new(io)),
                "std::io::Error | connection refused".into(),
            ),
            (
                Failure::from(Wrapped(parsed().into())),
                format!("{} | cannot charge | {digit}", type_name::<Wrapped>()),
            ),
            (
                Failure::any(NotPresent),
                format!("{} | {variable}", type_name::<VarError>()),
            ),
        ] {
            assert_eq!(failure.disposition, Disposition::Retry);
            assert_eq!(told(&failure), expected);
        }
    }

    #[test]
    fn a_rejection_and_an_outage_decide_from_any_depth() {
        let outage = || Outage::new(NotPresent).dependency(" gate\0way");
        let wrapped = |error: BoxedError| Wrapped(Box::new(Wrapped(error)));
        let (reject, down) = (Disposition::Reject, Disposition::Outage);
        let rejection = || Rejection::new("no");
        let order = |error: anyhow::Error| Failure::any(error.context("order 7"));
        let any = || anyhow::Error::new(rejection());
        for (failure, disposition) in [
            (Failure::from(rejection()), reject),
            (Failure::any(rejection()), reject),
            (Failure::from(wrapped(rejection().into())), reject),
            (Failure::any(any()), reject),
            (order(any()), reject),
            (Failure::any(BoxedError::from(any())), reject),
            (Failure::from(outage()), down),
            (order(anyhow::Error::new(outage())), down),
            // The outermost one decides.
            (Failure::from(Rejection::new(outage())), reject),
            (Failure::from(Outage::new(rejection())), down),
        ] {
            assert_eq!(failure.disposition, disposition, "{failure:?}");
        }
        let failure = order(anyhow::Error::new(outage()));
        assert_eq!(failure.dependency.as_deref(), Some("gateway"));
        let (class, cause) = (type_name::<VarError>(), NotPresent);
        assert_eq!(told(&failure), format!("{class} | order 7 | {cause}"));
        let failure = Failure::from(Rejection::new("no such currency"));
        assert_eq!(told(&failure), "Rejected | no such currency");
    }

    #[test]
    fn the_first_rule_that_concerns_an_error_decides_unless_it_decided_itself() {
        let second = Duration::from_secs(1);
        let later = Disposition::RetryAfter;
        let (reject, retry) = (Disposition::Reject, Disposition::Retry);
        let rules = [
            ErrorRule::of::<ParseIntError>(later(second), None),
            ErrorRule::of::<Wrapped>(reject, None),
            ErrorRule::of::<VarError>(Disposition::Outage, Some("gateway")),
        ];
        for (failure, disposition) in [
            (Failure::from(parsed()), later(second)),
            (Failure::from(Wrapped(parsed().into())), later(second)),
            (Failure::from(Wrapped(NotPresent.into())), reject),
            (Failure::any("else"), retry),
            (Failure::retry("said so"), retry),
            (
                Failure::from(NotPresent).after(2 * second),
                later(2 * second),
            ),
            (Failure::from(Rejection::new(NotPresent)), reject),
        ] {
            let ruled = failure.ruled(&rules);
            assert_eq!(ruled.disposition, disposition, "{ruled:?}");
            assert_eq!(ruled.dependency, None, "{ruled:?}");
        }
        let ruled = Failure::any(anyhow::Error::new(NotPresent)).ruled(&rules);
        assert_eq!(ruled.disposition, Disposition::Outage);
        assert_eq!(ruled.dependency.as_deref(), Some("gateway"));
    }
}
