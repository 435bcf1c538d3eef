//! Handlers of single jobs. Erases their payload types.

use std::sync::Arc;
use std::time::Duration;

use postgres::Statement;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::db::database::Database;
use crate::db::session::{Parameter, Session, is_stale};
use crate::db::sql;
use crate::error::{Error, Result};
use crate::job::backoff::Backoff;
use crate::job::error_report::ErrorReport;
use crate::job::failure::Failure;
use crate::job::follow_up::{FollowUp, FollowUps};
use crate::job::job::{Job, Signal};
use crate::pipeline::attempt::run_handler;
use crate::pipeline::buckets::{self, bucket};
use crate::pipeline::claim::ClaimedJob;
use crate::pipeline::follow_up;
use crate::pipeline::outcome::Outcome;
use crate::sync::Transaction;

/// How long a job waits if the database failed under its handler's transaction.
const DATABASE_SNOOZE: Duration = Duration::from_secs(5);

/// Settings for the jobs of one kind. Each defaults to the worker's.
#[derive(Clone, Debug, Default)]
pub struct HandlerOptions {
    pub(super) backoff: Option<Backoff>,
    pub(super) deadline: Option<Duration>,
    pub(super) dependency: Option<String>,
}

impl HandlerOptions {
    /// Returns options that keep the worker's settings.
    pub fn new() -> HandlerOptions {
        HandlerOptions::default()
    }

    /// Sets the delay before retries. Defaults to the worker's backoff.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> HandlerOptions {
        self.backoff = Some(backoff);
        self
    }

    /// Sets how long a handler may run. Defaults to the worker's deadline.
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
    fn of(outcome: Outcome) -> AttemptResult {
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

    /// Whether the handler's transaction holds the lease.
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

/// Returns a handler that settles its job in its transaction.
pub(crate) fn in_transaction<P, F>(options: HandlerOptions, db: Database, function: F) -> Handler
where
    P: DeserializeOwned + 'static,
    F: Fn(&Job<P>, &mut Transaction<'_>) -> Result<(), Failure> + Send + Sync + 'static,
{
    let call = move |claimed: ClaimedJob, signal: Arc<Signal>| {
        let lease = claimed.lease;
        let job = match decode::<P>(claimed, signal) {
            Ok(job) => job,
            Err(report) => return AttemptResult::of(Outcome::Undecodable(report)),
        };
        let mut held = true;
        let outcome = run_handler(|| {
            let mut session = db.session().map_err(database_failure)?;
            held = transact(&mut session, &job, lease.0, &function)?;
            Ok(())
        });
        match outcome {
            Outcome::Done if held => AttemptResult::Settled,
            Outcome::Done => AttemptResult::Lost,
            Outcome::Failed(_)
            | Outcome::Panicked(_)
            | Outcome::Undecodable(_)
            | Outcome::Unhandled(_)
            | Outcome::Expired(_)
            | Outcome::TimedOut(_) => AttemptResult::of(outcome),
        }
    };
    handler(options, Arc::new(call), true)
}

/// Why a handler's transaction did not commit.
enum NotCommitted {
    /// The connection no longer has the prepared statement, so nothing was done.
    Stale,
    Failed(Failure),
}

impl From<Failure> for NotCommitted {
    fn from(failure: Failure) -> NotCommitted {
        NotCommitted::Failed(failure)
    }
}

/// Ends the lease, runs the handler, stores its follow-ups and commits. Returns `false` if the lease
/// was lost and nothing was done.
///
/// The statement that ends the lease is prepared once per connection, because planning it takes longer
/// than running it.
fn transact<P>(
    session: &mut Session,
    job: &Job<P>,
    lease: uuid::Uuid,
    function: &impl Fn(&Job<P>, &mut Transaction<'_>) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let prepared = session
        .prepare("prepare a handler's transaction", &sql::SETTLE_OWN)
        .map_err(database_failure)?;
    try_transact(session, prepared.as_ref(), job, lease, function).map_err(|why| match why {
        NotCommitted::Stale => {
            session.forget(&sql::SETTLE_OWN);
            // At once, with the statement prepared again.
            Failure::snooze(Duration::ZERO)
        }
        NotCommitted::Failed(failure) => failure,
    })
}

/// Sends the statement that ends the lease unnamed if it is not `prepared`.
fn try_transact<P>(
    session: &mut Session,
    prepared: Option<&Statement>,
    job: &Job<P>,
    lease: uuid::Uuid,
    function: &impl Fn(&Job<P>, &mut Transaction<'_>) -> Result<(), Failure>,
) -> Result<bool, NotCommitted> {
    let failed = |what: &str, error| {
        database_failure(Error::from_postgres(
            format!("{what} job {} in its transaction", job.id()),
            error,
        ))
    };
    let mut transaction = session
        .client()
        .transaction()
        .map_err(|error| failed("begin", error))?;
    let wait = job.meta.wait.as_secs_f64();
    let (id, generation, kind) = (
        job.id().get(),
        job.meta.generation.cast_signed(),
        &*job.meta.kind,
    );
    let attempt = job.attempt().cast_signed();
    let (attempts_bucket, wait_bucket) = (
        bucket(buckets::ATTEMPTS, job.attempt().into()),
        bucket(buckets::SECONDS, wait),
    );
    let values: [Parameter<'_>; 9] = [
        &lease,
        &id,
        &generation,
        &kind,
        &attempt,
        &attempts_bucket,
        &wait,
        &wait_bucket,
        &job.meta.enqueued_at,
    ];
    let ended = match prepared {
        Some(statement) => transaction.query(statement, &values),
        None => transaction.query_typed(sql::SETTLE_OWN.text, &sql::SETTLE_OWN.typed(&values)),
    };
    let ended = ended.map_err(|error| match prepared.is_some() && is_stale(&error) {
        true => NotCommitted::Stale,
        false => failed("settle", error).into(),
    })?;
    if ended.is_empty() {
        return Ok(false);
    }
    function(job, &mut transaction)?;
    if job.meta.is_unique {
        transaction
            .query_typed(sql::FREE_KEY.text, &sql::FREE_KEY.typed(&[&job.id().get()]))
            .map_err(|error| failed("free the key of", error))?;
    }
    if job.meta.group.is_some() {
        transaction
            .query_typed(
                sql::FREE_SLOT.text,
                &sql::FREE_SLOT.typed(&[&job.id().get()]),
            )
            .map_err(|error| failed("pass the turn of", error))?;
    }
    follow_up::store(&job.follow_ups.take(), |sql, values| {
        transaction
            .query_typed(sql.text, &sql.typed(values))
            .map_err(|error| {
                Error::from_postgres(format!("store the follow-ups of job {}", job.id()), error)
            })
    })
    .map_err(database_failure)?;
    transaction
        .commit()
        .map_err(|error| failed("commit", error))?;
    Ok(true)
}

/// Snoozes the job if the database is unavailable, because the handler did not fail.
fn database_failure(error: Error) -> Failure {
    if error.is_unavailable() {
        Failure::snooze(DATABASE_SNOOZE)
    } else {
        Failure::from(error)
    }
}

fn handler(options: HandlerOptions, call: HandlerFn, in_transaction: bool) -> Handler {
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
