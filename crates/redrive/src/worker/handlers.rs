//! Handlers and their options. Erases the types of payloads.

use std::error::Error as StdError;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::job::backoff::Backoff;
use crate::job::deciding_error::ErrorRule;
use crate::job::disposition::Disposition;
use crate::job::failure::Failure;
use crate::job::follow_up::FollowUp;
use crate::job::job::{Job, Signal};
use crate::job::payload::{Payload, read};
use crate::job::setters::setters;
use crate::pipeline::attempt::run_handler;
use crate::pipeline::claim::ClaimedJob;
use crate::pipeline::outcome::{FailedBy, Outcome};
use crate::sync::{Transaction, lock};
use crate::worker::batch::BatchOptions;

/// Settings for the jobs of one kind. Each defaults to that of the payload's type, or else of the worker.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct HandlerOptions {
    pub(super) backoff: Option<Backoff>,
    pub(super) deadline: Option<Duration>,
    pub(super) dependency: Option<String>,
    pub(crate) rules: Vec<ErrorRule>,
    pub(crate) keep_done: Option<Duration>,
    pub(crate) undecodable: Undecodable,
}

/// What follows when a payload does not match the type of its handler.
///
/// A job whose payload has a higher [`VERSION`](crate::Payload::VERSION) than the program reads is always
/// retried, because there is a newer program. Each attempt counts; after the last one, the job is a dead
/// letter of the cause [`Undecodable`](crate::dlq::DeathCause::Undecodable).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Undecodable {
    /// A retry while workers of another [version](crate::WorkerBuilder::version) of the program serve the
    /// queue, as of the last renewal of the lease; otherwise a dead letter at once.
    #[default]
    RetryDuringDeploy,
    /// A retry, with the backoff of the handler.
    Retry,
    /// A dead letter at once.
    Die,
}

impl HandlerOptions {
    /// Returns options that keep the worker's settings.
    pub fn new() -> HandlerOptions {
        HandlerOptions::default()
    }

    setters! {
        /// Sets the delay before retries.
        pub fn backoff(self, backoff: Backoff) => self.backoff = Some(backoff);

        /// Sets how long a handler may run. Accepts 1 millisecond to 24 hours.
        pub fn deadline(self, deadline: Duration) => self.deadline = Some(deadline);

        /// Names the dependency of these jobs, such as an API.
        ///
        /// Outages ([`Failure::outage`]) open the breaker of this name. While it is open, workers of
        /// all queues claim no jobs of kinds with this dependency. Defaults to none: outages then pause the whole queue.
        ///
        /// The name follows the rules of queue names and must not begin with `queue:`. A handler of
        /// [any kind](crate::WorkerBuilder::handle_any) cannot have one.
        pub fn dependency(self, name: impl Into<String>) => self.dependency = Some(name.into());

        /// Keeps finished jobs of the kind for this time. Defaults to the time of the worker; see
        /// [`WorkerBuilder::keep_done`](crate::WorkerBuilder::keep_done).
        pub fn keep_done(self, time: Duration) => self.keep_done = Some(time);

        /// Sets what follows when a payload does not match the type of the handler.
        pub fn undecodable(self, undecodable: Undecodable) => self.undecodable = undecodable;
    }

    /// Retries after `delay` if the handler returns an error that is an `E` or has one among its causes.
    ///
    /// Of several rules, the first one that concerns an error applies. An error that decides itself
    /// ([`Rejection`](crate::Rejection), [`Failure::reject`]) keeps its decision.
    pub fn retry_on<E: StdError + 'static>(self, delay: Duration) -> HandlerOptions {
        self.rule::<E>(Disposition::RetryAfter(delay), None)
    }

    /// Dead-letters the job at once if the handler returns such an error; see [`retry_on`](HandlerOptions::retry_on).
    ///
    /// ```
    /// use redrive::HandlerOptions;
    ///
    /// // What is not UTF-8 today will not be tomorrow; and the gateway may be down.
    /// let _ = HandlerOptions::new()
    ///     .reject_on::<std::str::Utf8Error>()
    ///     .outage_on::<std::io::Error>("gateway");
    /// ```
    pub fn reject_on<E: StdError + 'static>(self) -> HandlerOptions {
        self.rule::<E>(Disposition::Reject, None)
    }

    /// Takes such an error for an [outage](Failure::outage) of a dependency; see [`retry_on`](HandlerOptions::retry_on).
    pub fn outage_on<E: StdError + 'static>(self, dependency: &str) -> HandlerOptions {
        self.rule::<E>(Disposition::Outage, Some(dependency))
    }

    /// The defaults of a payload.
    pub(super) fn of<P: Payload>() -> HandlerOptions {
        HandlerOptions {
            backoff: P::backoff(),
            deadline: P::DEADLINE,
            ..HandlerOptions::default()
        }
    }

    /// Fills what is not set with the defaults of the payload.
    pub(super) fn or(self, defaults: &HandlerOptions) -> HandlerOptions {
        HandlerOptions {
            backoff: self.backoff.or_else(|| defaults.backoff.clone()),
            deadline: self.deadline.or(defaults.deadline),
            ..self
        }
    }

    /// Applies the options to the outcome of an attempt.
    pub(crate) fn ruled(&self, mut outcome: Outcome, is_deploy: bool) -> Outcome {
        let reads_later = match self.undecodable {
            Undecodable::RetryDuringDeploy => is_deploy,
            Undecodable::Retry => true,
            Undecodable::Die => false,
        };
        if outcome.by == FailedBy::Payload && reads_later {
            outcome.failure.disposition = Disposition::Retry;
        }
        // Only the failure of a handler has an error.
        *outcome.failure = outcome.failure.ruled(&self.rules);
        outcome
    }

    pub(crate) fn backoff_or<'a>(&'a self, default: &'a Backoff) -> &'a Backoff {
        self.backoff.as_ref().unwrap_or(default)
    }

    /// The dependencies that it names.
    pub(super) fn dependencies(&self) -> impl Iterator<Item = &str> {
        let rules = self.rules.iter();
        let of_rules = rules.filter_map(|rule| rule.dependency.as_deref());
        of_rules.chain(self.dependency.as_deref())
    }

    fn rule<E: StdError + 'static>(
        mut self,
        disposition: Disposition,
        dependency: Option<&str>,
    ) -> HandlerOptions {
        self.rules.push(ErrorRule::of::<E>(disposition, dependency));
        self
    }
}

/// A handler and its settings.
#[derive(Clone)]
pub(crate) struct Handler {
    pub(crate) call: Call,
    pub(crate) options: Arc<HandlerOptions>,
    /// What its batches look like. `None`: its jobs run singly.
    pub(crate) batches: Option<BatchOptions>,
}

/// How a handler runs.
#[derive(Clone)]
pub(crate) enum Call {
    /// Runs the attempts of a job or of a batch. Returns their ends in the same order.
    Plain(Arc<RunJobs>),
    /// Runs the attempt in a transaction, which then ends the lease.
    InTransaction(Arc<RunInTransaction>),
}

/// The jobs of one run.
pub(super) type Jobs<'a> = &'a mut dyn Iterator<Item = (ClaimedJob, Arc<Signal>)>;

type RunJobs = dyn Fn(Jobs<'_>) -> Vec<JobEnd> + Send + Sync;

pub(super) type RunInTransaction =
    dyn Fn(ClaimedJob, Arc<Signal>, &mut Transaction<'_>) -> JobEnd + Send + Sync;

impl Handler {
    /// Returns a handler with the defaults of its payload.
    pub(super) fn new(call: Call, defaults: HandlerOptions) -> Handler {
        Handler {
            call,
            options: Arc::new(defaults),
            batches: None,
        }
    }
}

/// How a job ended. A success has follow-ups.
pub(crate) type JobEnd = Result<Vec<FollowUp>, Outcome>;

/// Returns the end of a job of a batch that the handler has decided about.
pub(crate) fn decided(signal: &Signal) -> Option<JobEnd> {
    let decision = lock(&signal.decision).clone()?;
    // They stay, because the batch may still run.
    let follow_ups = |()| lock(&signal.follow_ups).clone();
    Some(decision.map(follow_ups).map_err(Outcome::from))
}

/// Reads a payload of a version.
pub(super) type Read<P> = fn(&str, u32) -> Result<P, Failure>;

/// Returns a handler of undecoded payloads.
pub(crate) fn raw<F>(function: F) -> Handler
where
    F: Fn(&Job<Box<RawValue>>) -> Result<(), Failure> + Send + Sync + 'static,
{
    let read =
        |json: &str, _| serde_json::from_str(json).map_err(|error| Failure::from(error).rejected());
    single(HandlerOptions::new(), read, function)
}

/// Returns a handler of payloads that are read in this way.
pub(super) fn single<P, F>(defaults: HandlerOptions, read: Read<P>, function: F) -> Handler
where
    P: 'static,
    F: Fn(&Job<P>) -> Result<(), Failure> + Send + Sync + 'static,
{
    let call = move |jobs: Jobs<'_>| {
        let run = |(claimed, signal)| run_decoded(decode(claimed, signal, read)?, &function);
        jobs.map(run).collect()
    };
    Handler::new(Call::Plain(Arc::new(call)), defaults)
}

/// Returns a handler of decoded payloads whose transaction also settles the job.
pub(crate) fn in_transaction<P, F>(function: F) -> Handler
where
    P: Payload + 'static,
    F: Fn(&Job<P>, &mut Transaction<'_>) -> Result<(), Failure> + Send + Sync + 'static,
{
    let call =
        move |claimed: ClaimedJob, signal: Arc<Signal>, transaction: &mut Transaction<'_>| {
            let job: Job<P> = decode(claimed, signal, read)?;
            run_decoded(job, |job| function(job, transaction))
        };
    let call = Call::InTransaction(Arc::new(call));
    Handler::new(call, HandlerOptions::of::<P>())
}

/// Runs the handler of a decoded job.
fn run_decoded<P>(job: Job<P>, handler: impl FnOnce(&Job<P>) -> Result<(), Failure>) -> JobEnd {
    let ran = run_handler(|| {
        handler(&job)?;
        Ok(mem::take(&mut *lock(&job.signal.follow_ups)))
    });
    // A panic in Drop counts as a panic of the handler. Beside one of the handler, it would end the process.
    let dropped = run_handler(|| {
        drop(job);
        Ok(())
    });
    dropped.and(ran)
}

/// Decodes the payload of a job. Returns the outcome of its attempt if that fails.
pub(super) fn decode<P>(
    claimed: ClaimedJob,
    signal: Arc<Signal>,
    read: Read<P>,
) -> Result<Job<P>, Outcome> {
    let version = claimed.meta.headers.payload_version();
    // A panic in Deserialize means that the payload cannot be decoded.
    match run_handler(|| read(claimed.payload.as_str(), version)) {
        Ok(payload) => Ok(Job {
            meta: claimed.meta,
            payload,
            signal,
        }),
        Err(outcome) if outcome.by == FailedBy::Panic => {
            Err(Outcome::of(FailedBy::Payload, outcome.failure.report))
        }
        Err(Outcome { failure, .. }) => {
            let disposition = failure.disposition;
            let report = failure.class(std::any::type_name::<P>()).report;
            let mut outcome = Outcome::of(FailedBy::Payload, report);
            outcome.failure.disposition = disposition;
            Err(outcome)
        }
    }
}
