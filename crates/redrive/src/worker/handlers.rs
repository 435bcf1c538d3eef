//! Handlers: kind → function, with the type of the payload erased.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::backoff::Backoff;
use crate::claim::Claimed;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::failure::{Failure, Story};
use crate::floor::Transaction;
use crate::job::{Job, Signal};
use crate::judge::Outcome;
use crate::metrics::{BOUNDS, bucket};
use crate::run::run;
use crate::session::Session;
use crate::sql;

/// How long a job waits when the database failed under its handler's transaction.
const PUT_OFF: Duration = Duration::from_secs(5);

/// How the jobs of a kind are treated, where it differs from the worker's defaults.
///
/// ```
/// use redrive::{Backoff, HandlerOptions};
/// use std::time::Duration;
///
/// let options = HandlerOptions::new()
///     .backoff(Backoff::fixed(Duration::from_secs(60)))
///     .deadline(Duration::from_secs(30));
/// ```
#[derive(Clone, Debug, Default)]
pub struct HandlerOptions {
    backoff: Option<Backoff>,
    deadline: Option<Duration>,
    dependency: Option<String>,
}

impl HandlerOptions {
    /// The worker's defaults.
    pub fn new() -> HandlerOptions {
        HandlerOptions::default()
    }

    /// The wait before retries. Defaults to the worker's.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> HandlerOptions {
        self.backoff = Some(backoff);
        self
    }

    /// How long a handler may run. Defaults to the worker's. From 1 millisecond to 24 hours.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> HandlerOptions {
        self.deadline = Some(deadline);
        self
    }

    /// Names what the jobs of the kind need: an API, a file share. Its outages
    /// ([`Failure::outage`]) open the breaker of that name, and while it is open, in any queue,
    /// jobs of this kind are not claimed; those of other kinds are. Defaults to the breaker of the
    /// whole queue. A name as that of a queue, not beginning with `queue:`.
    #[must_use]
    pub fn dependency(mut self, name: impl Into<String>) -> HandlerOptions {
        self.dependency = Some(name.into());
        self
    }
}

/// What an attempt came to.
#[derive(Debug)]
pub(crate) enum Attempted {
    /// A verdict is to be found and settled.
    Judge(Outcome),
    /// The handler's own transaction has settled it.
    Settled,
    /// The handler's own transaction found the lease lost, and did nothing.
    Lost,
}

type Call = Arc<dyn Fn(Claimed, Arc<Signal>) -> Attempted + Send + Sync>;

/// A handler and how its jobs are treated.
#[derive(Clone)]
pub(crate) struct Handler {
    call: Call,
    backoff: Option<Backoff>,
    deadline: Option<Duration>,
    dependency: Option<String>,
    in_transaction: bool,
}

impl Handler {
    pub(crate) fn attempt(&self, claimed: Claimed, signal: Arc<Signal>) -> Attempted {
        (self.call)(claimed, signal)
    }

    /// Whether the handler's own transaction holds the lease while it runs.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.in_transaction
    }

    pub(crate) fn backoff<'a>(&'a self, default: &'a Backoff) -> &'a Backoff {
        self.backoff.as_ref().unwrap_or(default)
    }

    pub(crate) fn deadline(&self, default: Duration) -> Duration {
        self.deadline.unwrap_or(default)
    }
}

/// The handlers of a worker.
#[derive(Clone, Default)]
pub(crate) struct Handlers {
    by_kind: HashMap<String, Handler>,
    any: Option<Handler>,
}

impl Handlers {
    /// Adds the handler of a kind; `false`: there is one already.
    pub(crate) fn add(&mut self, kind: &str, handler: Handler) -> bool {
        self.by_kind.insert(kind.to_owned(), handler).is_none()
    }

    /// Sets the handler of every kind that has none; `false`: there is one already.
    pub(crate) fn add_any(&mut self, handler: Handler) -> bool {
        self.any.replace(handler).is_none()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_kind.is_empty() && self.any.is_none()
    }

    pub(crate) fn of(&self, kind: &str) -> Option<&Handler> {
        self.by_kind.get(kind).or(self.any.as_ref())
    }

    /// The kinds to claim; `None`: all.
    pub(crate) fn kinds(&self) -> Option<Arc<[String]>> {
        match self.any {
            Some(_) => None,
            None => {
                let mut kinds: Vec<String> = self.by_kind.keys().cloned().collect();
                kinds.sort_unstable();
                Some(kinds.into())
            }
        }
    }

    /// The kinds whose jobs need a lease each, because the handler's transaction ends it.
    pub(crate) fn kinds_in_transactions(&self) -> Arc<[String]> {
        let with = self
            .by_kind
            .iter()
            .filter(|(_, handler)| handler.in_transaction);
        with.map(|(kind, _)| kind.clone()).collect()
    }

    /// What the kinds need, of those that were registered with a dependency.
    pub(crate) fn dependencies(&self) -> HashMap<String, String> {
        let with = self.by_kind.iter().filter_map(|(kind, handler)| {
            let dependency = handler.dependency.clone()?;
            Some((kind.clone(), dependency))
        });
        with.collect()
    }

    /// Every deadline and backoff that was given, for the check at start.
    pub(crate) fn deadlines(&self) -> impl Iterator<Item = Duration> {
        self.by_kind
            .values()
            .chain(&self.any)
            .filter_map(|handler| handler.deadline)
    }
}

/// A handler of typed payloads.
pub(crate) fn typed<P, F>(options: HandlerOptions, function: F) -> Handler
where
    P: DeserializeOwned + 'static,
    F: Fn(&Job<P>) -> Result<(), Failure> + Send + Sync + 'static,
{
    let call = move |claimed: Claimed, signal: Arc<Signal>| {
        Attempted::Judge(match decode::<P>(claimed, signal) {
            Ok(job) => {
                let function = &function;
                // The payload is dropped inside: a Drop that panics is a panic of the handler.
                run(move || function(&{ job }))
            }
            Err(story) => Outcome::Undecodable(story),
        })
    };
    handler(options, Arc::new(call), false)
}

/// A handler of the payload as it is stored.
pub(crate) fn raw<F>(options: HandlerOptions, function: F) -> Handler
where
    F: Fn(&Job<Box<RawValue>>) -> Result<(), Failure> + Send + Sync + 'static,
{
    typed(options, function)
}

/// A handler that settles its job inside its own transaction.
pub(crate) fn in_transaction<P, F>(options: HandlerOptions, db: Database, function: F) -> Handler
where
    P: DeserializeOwned + 'static,
    F: Fn(&Job<P>, &mut Transaction<'_>) -> Result<(), Failure> + Send + Sync + 'static,
{
    let call = move |claimed: Claimed, signal: Arc<Signal>| {
        let lease = claimed.lease;
        let job = match decode::<P>(claimed, signal) {
            Ok(job) => job,
            Err(story) => return Attempted::Judge(Outcome::Undecodable(story)),
        };
        let mut held = true;
        let outcome = run(|| {
            let mut session = db.session().map_err(not_the_jobs_fault)?;
            held = transact(&mut session, &job, lease.0, &function)?;
            Ok(())
        });
        match outcome {
            Outcome::Done if held => Attempted::Settled,
            Outcome::Done => Attempted::Lost,
            Outcome::Failed(_)
            | Outcome::Panicked(_)
            | Outcome::Undecodable(_)
            | Outcome::Unhandled(_)
            | Outcome::TimedOut(_) => Attempted::Judge(outcome),
        }
    };
    handler(options, Arc::new(call), true)
}

/// Ends the lease, runs the handler, commits. `false`: the lease is lost, nothing was done.
fn transact<P>(
    session: &mut Session,
    job: &Job<P>,
    lease: uuid::Uuid,
    function: &impl Fn(&Job<P>, &mut Transaction<'_>) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let failed = |what: &str, error| {
        not_the_jobs_fault(Error::from_postgres(
            format!("{what} job {} in its transaction", job.id()),
            error,
        ))
    };
    let mut transaction = session
        .client()
        .transaction()
        .map_err(|error| failed("begin", error))?;
    let wait = job.facts.wait.as_secs_f64();
    let ended = transaction
        .query_typed(
            sql::SETTLE_OWN.text,
            &sql::SETTLE_OWN.typed(&[
                &lease,
                &job.id().get(),
                &bucket(BOUNDS.attempts, job.attempt().into()),
                &wait,
                &bucket(BOUNDS.wait, wait),
            ]),
        )
        .map_err(|error| failed("settle", error))?;
    if ended.is_empty() {
        return Ok(false);
    }
    function(job, &mut transaction)?;
    if job.facts.is_unique {
        transaction
            .query_typed(sql::FREE_KEY.text, &sql::FREE_KEY.typed(&[&job.id().get()]))
            .map_err(|error| failed("free the key of", error))?;
    }
    transaction
        .commit()
        .map_err(|error| failed("commit", error))?;
    Ok(true)
}

/// A database that is away is no failure of the job: it is put off, and its attempt given back.
fn not_the_jobs_fault(error: Error) -> Failure {
    if error.is_unavailable() {
        Failure::snooze(PUT_OFF)
    } else {
        Failure::from(error)
    }
}

fn handler(options: HandlerOptions, call: Call, in_transaction: bool) -> Handler {
    Handler {
        call,
        backoff: options.backoff,
        deadline: options.deadline,
        dependency: options.dependency,
        in_transaction,
    }
}

fn decode<P: DeserializeOwned>(claimed: Claimed, signal: Arc<Signal>) -> Result<Job<P>, Story> {
    let mut decoded = None;
    // A user's Deserialize may panic; that is an undecodable payload as well.
    let outcome = run(|| {
        decoded = Some(serde_json::from_slice(&claimed.payload.0)?);
        Ok(())
    });
    match (decoded, outcome) {
        (Some(payload), _) => Ok(Job {
            facts: claimed.facts,
            payload,
            signal,
        }),
        (None, Outcome::Failed(failure)) => Err(failure.class(std::any::type_name::<P>()).story),
        (None, Outcome::Panicked(story)) => Err(story),
        (None, other) => Err(Story::new(
            std::any::type_name::<P>(),
            format!("{other:?}"),
            None,
        )),
    }
}
