//! Handlers of single jobs. Erases their payload types.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::error::Result;
use crate::job::backoff::Backoff;
use crate::job::deciding_error::ErrorRule;
use crate::job::error_report::ErrorReport;
use crate::job::failure::Failure;
use crate::job::follow_up::{FollowUp, FollowUps};
use crate::job::job::{Job, Signal};
use crate::job::payload::Payload;
use crate::pipeline::attempt::run_handler;
use crate::pipeline::claim::ClaimedJob;
use crate::pipeline::outcome::Outcome;

/// Settings for the jobs of one kind. Each defaults to that of the payload's type, or else of the worker.
#[derive(Clone, Debug, Default)]
pub struct HandlerOptions {
    pub(super) backoff: Option<Backoff>,
    pub(super) deadline: Option<Duration>,
    pub(super) dependency: Option<String>,
    pub(super) rules: Arc<Vec<ErrorRule>>,
}

impl HandlerOptions {
    /// Returns options that keep the worker's settings.
    pub fn new() -> HandlerOptions {
        HandlerOptions::default()
    }

    /// Sets the delay before retries. Defaults to that of the payload's type, or else of the worker.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> HandlerOptions {
        self.backoff = Some(backoff);
        self
    }

    /// Sets how long a handler may run. Defaults to that of the payload's type, or else of the worker.
    ///
    /// Accepts 1 millisecond to 24 hours.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> HandlerOptions {
        self.deadline = Some(deadline);
        self
    }

    /// Names the dependency of these jobs, such as an API.
    ///
    /// Defaults to none: outages then pause the whole queue. The name follows the rules of queue
    /// names and must not begin with `queue:`.
    ///
    /// Outages ([`Failure::outage`]) open the breaker of this name. While it is open, workers of
    /// all queues claim no jobs of kinds with this dependency.
    #[must_use]
    pub fn dependency(mut self, name: impl Into<String>) -> HandlerOptions {
        self.dependency = Some(name.into());
        self
    }

    /// Retries after `delay` if the handler returns an error that is an `E` or has one among its causes.
    ///
    /// Of several rules, the first one that concerns an error applies. An error that decides itself
    /// ([`Rejection`](crate::Rejection), [`Failure::reject`]) keeps its decision.
    #[must_use]
    pub fn retry_on<E: StdError + 'static>(self, delay: Duration) -> HandlerOptions {
        self.rule(ErrorRule::retry::<E>(delay))
    }

    /// Dead-letters the job at once if the handler returns an error that is an `E` or has one among its
    /// causes. See [`retry_on`](HandlerOptions::retry_on).
    ///
    /// ```
    /// use redrive::HandlerOptions;
    ///
    /// // What is not UTF-8 today will not be tomorrow; and the gateway may be down.
    /// let _ = HandlerOptions::new()
    ///     .reject_on::<std::str::Utf8Error>()
    ///     .outage_on::<std::io::Error>("gateway");
    /// ```
    #[must_use]
    pub fn reject_on<E: StdError + 'static>(self) -> HandlerOptions {
        self.rule(ErrorRule::reject::<E>())
    }

    /// Takes an error that is an `E` or has one among its causes for an outage of a dependency. See
    /// [`retry_on`](HandlerOptions::retry_on) and [`Failure::outage`].
    #[must_use]
    pub fn outage_on<E: StdError + 'static>(self, dependency: &str) -> HandlerOptions {
        self.rule(ErrorRule::outage::<E>(dependency))
    }

    /// Fills what is not set with the defaults of a payload.
    pub(super) fn or_those_of<P: Payload>(self) -> HandlerOptions {
        HandlerOptions {
            backoff: self.backoff.or_else(P::backoff),
            deadline: self.deadline.or(P::DEADLINE),
            ..self
        }
    }

    pub(super) fn own_deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// The dependencies that it names.
    pub(super) fn dependencies(&self) -> impl Iterator<Item = &str> {
        let of_rules = self
            .rules
            .iter()
            .filter_map(|rule| rule.dependency.as_deref());
        of_rules.chain(self.dependency.as_deref())
    }

    fn rule(mut self, rule: ErrorRule) -> HandlerOptions {
        Arc::make_mut(&mut self.rules).push(rule);
        self
    }
}

/// How a handler ended its job.
#[derive(Debug)]
pub(crate) enum AttemptResult {
    /// The outcome must be judged and settled, with the follow-ups of a success.
    Judge(Outcome, Vec<FollowUp>),
    /// The handler's transaction settled the job.
    Settled,
    /// The handler's transaction found the lease lost and did nothing.
    Lost,
}

impl AttemptResult {
    /// Returns the result of an attempt without follow-ups.
    pub(super) fn of(outcome: Outcome) -> AttemptResult {
        AttemptResult::Judge(outcome, Vec::new())
    }
}

type HandlerFn = Arc<dyn Fn(ClaimedJob, Arc<Signal>) -> AttemptResult + Send + Sync>;

/// A handler and its settings.
#[derive(Clone)]
pub(crate) struct Handler {
    call: HandlerFn,
    options: HandlerOptions,
    in_transaction: bool,
}

impl Handler {
    pub(crate) fn attempt(&self, claimed: ClaimedJob, signal: Arc<Signal>) -> AttemptResult {
        (self.call)(claimed, signal)
    }

    /// Whether the handler's transaction ends the lease.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.in_transaction
    }

    pub(super) fn options(&self) -> &HandlerOptions {
        &self.options
    }

    pub(crate) fn backoff<'a>(&'a self, default: &'a Backoff) -> &'a Backoff {
        self.options.backoff.as_ref().unwrap_or(default)
    }

    pub(crate) fn deadline(&self, default: Duration) -> Duration {
        self.options.deadline.unwrap_or(default)
    }

    pub(crate) fn rules(&self) -> Arc<Vec<ErrorRule>> {
        Arc::clone(&self.options.rules)
    }
}

/// Returns a handler of decoded payloads.
pub(crate) fn typed<P, F>(options: HandlerOptions, function: F) -> Handler
where
    P: DeserializeOwned + 'static,
    F: Fn(&Job<P>) -> Result<(), Failure> + Send + Sync + 'static,
{
    let call = move |claimed: ClaimedJob, signal: Arc<Signal>| {
        let job = match decode::<P>(claimed, signal) {
            Ok(job) => job,
            Err(report) => return AttemptResult::of(Outcome::Undecodable(report)),
        };
        let mut follow_ups = Vec::new();
        // The payload is dropped inside, so that a panic in Drop counts as a panic of the handler.
        let outcome = run_handler(|| {
            function(&job)?;
            let added = job.follow_ups.take();
            drop(job);
            follow_ups = added;
            Ok(())
        });
        AttemptResult::Judge(outcome, follow_ups)
    };
    handler(options, Arc::new(call), false)
}

/// Returns a handler of undecoded payloads.
pub(crate) fn raw<F>(options: HandlerOptions, function: F) -> Handler
where
    F: Fn(&Job<Box<RawValue>>) -> Result<(), Failure> + Send + Sync + 'static,
{
    typed(options, function)
}

pub(super) fn handler(options: HandlerOptions, call: HandlerFn, in_transaction: bool) -> Handler {
    Handler {
        call,
        options,
        in_transaction,
    }
}

pub(super) fn decode<P: DeserializeOwned>(
    claimed: ClaimedJob,
    signal: Arc<Signal>,
) -> Result<Job<P>, ErrorReport> {
    let mut decoded = None;
    // A panic in Deserialize means that the payload cannot be decoded.
    let outcome = run_handler(|| {
        decoded = Some(serde_json::from_slice(&claimed.payload.0)?);
        Ok(())
    });
    match (decoded, outcome) {
        (Some(payload), _) => Ok(Job {
            meta: claimed.meta,
            payload,
            signal,
            follow_ups: FollowUps::default(),
        }),
        (None, Outcome::Failed(failure)) => Err(failure.class(std::any::type_name::<P>()).report),
        (None, Outcome::Panicked(report)) => Err(report),
        (None, other) => Err(ErrorReport::new(
            std::any::type_name::<P>(),
            format!("{other:?}"),
            None,
        )),
    }
}
