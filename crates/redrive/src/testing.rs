//! For the tests of programs: samples of jobs, what a handler decided, what a program enqueued, what
//! its handlers make of it, and a database for each test.
//!
//! ```
//! use redrive::testing::{Decision, drain_in, enqueued, travel};
//! use redrive::worker::AttemptOutcome;
//! use redrive::{Failure, Handlers, Job, NewJob, Payload};
//! use std::time::Duration;
//! # use serde::{Deserialize, Serialize};
//!
//! #[derive(Debug, Serialize, Deserialize)]
//! struct Charge { order: i64 }
//! impl Payload for Charge {
//!     const KIND: &'static str = "testing-charge";
//!     const QUEUE: Option<&'static str> = Some("testing");
//! }
//!
//! fn charge(job: &Job<Charge>) -> Result<(), Failure> {
//!     match (job.payload().order, job.is_last_attempt()) {
//!         (7, _) => Err(Failure::reject("no such order")),
//!         (8, true) => Ok(job.then(NewJob::new(&Charge { order: 9 })?)?),
//!         _ => Err(Failure::retry("busy")),
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A handler needs no server.
//! let failure = charge(&Job::sample(Charge { order: 7 })).unwrap_err();
//! assert_eq!(failure.decision(), Decision::Reject);
//!
//! let last = Job::sample(Charge { order: 8 }).attempt(5).group("customer 1");
//! assert!(charge(&last).is_ok());
//! assert_eq!(last.follow_ups()[0].payload::<Charge>()?.order, 9);
//!
//! // What a program enqueued and what its handlers make of it, in a transaction that the test rolls back.
//! # let url = std::env::var("DATABASE_URL")?;
//! # let db = redrive::connect(&url)?;
//! # db.migrate()?;
//! # let mut client = redrive::postgres::Client::connect(&url, redrive::postgres::NoTls)?;
//! let mut tx = client.transaction()?;
//! db.enqueue_in(&mut tx, &Charge { order: 42 })?;
//! let jobs = enqueued::<Charge>(&mut tx)?;
//! assert_eq!((jobs[0].payload.order, &*jobs[0].queue), (42, "testing"));
//!
//! let ran = drain_in(&mut tx, &Handlers::new().handle(charge))?;
//! assert_eq!((ran.len(), ran[0].outcome), (1, AttemptOutcome::Retried));
//! travel(&mut tx, Duration::from_secs(3600))?;
//! assert_eq!(enqueued::<Charge>(&mut tx)?.len(), 1); // it is due now
//! tx.rollback()?;
//! assert!(enqueued::<Charge>(&mut client)?.is_empty());
//! # Ok(()) }
//! ```

mod run;
#[cfg(unix)]
mod server;
#[cfg(unix)]
mod database;

use std::collections::BTreeMap;
use std::time::SystemTime;

use postgres::{GenericClient, Row};

use crate::db::sql;
use crate::error::{Error, Result};
use crate::job::headers::Headers;
use crate::job::job::JobId;
use crate::job::payload::{Json, Payload, read};

pub use crate::job::disposition::Disposition as Decision;
pub use crate::job::follow_up::FollowUp;
pub use crate::job::sample::Sample;
#[cfg(unix)]
pub use database::TestDatabase;
pub use run::{Ran, drain_in, run_next, travel};

/// A live job, as [`enqueued`] returns it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EnqueuedJob<P> {
    /// The id.
    pub id: JobId,
    /// The queue.
    pub queue: String,
    /// The payload.
    pub payload: P,
    /// The priority.
    pub priority: i16,
    /// The attempt budget.
    pub max_attempts: u32,
    /// When a delayed job becomes ready; `None`: it is not delayed.
    pub due_at: Option<SystemTime>,
    /// The unique key.
    pub unique_key: Option<String>,
    /// The group.
    pub group: Option<String>,
    /// The headers.
    pub headers: BTreeMap<String, String>,
}

/// Returns the live jobs of a payload's kind in all queues, in the order of their enqueue.
///
/// `client` is a `postgres::Transaction`, which sees what it enqueued, or a `postgres::Client`.
///
/// # Errors
/// *Invalid* if a payload is no `P`. Otherwise if the database rejects the statement.
pub fn enqueued<P: Payload>(client: &mut impl GenericClient) -> Result<Vec<EnqueuedJob<P>>> {
    let parameters = sql::ENQUEUED.typed(&[&P::KIND]);
    let rows = client
        .query_typed(sql::ENQUEUED.text, &parameters)
        .map_err(|error| {
            Error::from_postgres(format!("list the jobs of kind `{}`", P::KIND), error)
        })?;
    rows.iter().map(job).collect()
}

fn job<P: Payload>(row: &Row) -> Result<EnqueuedJob<P>> {
    let id = JobId::new(row.get("id"));
    let payload: Json = row.get("payload");
    let headers: Option<Json> = row.get("headers");
    let headers = Headers::read(headers.as_ref().map(Json::as_str))?;
    let payload = read(payload.as_str(), headers.payload_version()).map_err(|failure| {
        let expected = std::any::type_name::<P>();
        Error::invalid(format!(
            "the payload of job {id} is no {expected}: {failure}"
        ))
    })?;
    let due_at: SystemTime = row.get("run_at");
    Ok(EnqueuedJob {
        id,
        queue: row.get("queue"),
        payload,
        priority: row.get("priority"),
        max_attempts: row.get::<_, i32>("max_attempts").unsigned_abs(),
        due_at: row.get::<_, bool>("is_delayed").then_some(due_at),
        unique_key: row.get("unique_key"),
        group: row.get("group_key"),
        headers: headers.0,
    })
}
