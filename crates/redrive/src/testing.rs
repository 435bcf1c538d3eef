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
//! assert_eq!((jobs[0].payload.order, &*jobs[0].job.queue), (42, "testing"));
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

use postgres::GenericClient;

use crate::admin::{JobFilter, LiveJob};
use crate::db::row::read_all;
use crate::db::sql;
use crate::error::{Error, Result};
use crate::job::headers::Headers;
use crate::job::payload::{Payload, read};

pub use crate::job::disposition::Disposition as Decision;
pub use crate::job::follow_up::FollowUp;
pub use crate::job::sample::Sample;
#[cfg(unix)]
pub use database::TestDatabase;
pub use run::{drain_in, run_next, travel};

/// A live job, as [`enqueued`] returns it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EnqueuedJob<P> {
    /// Its payload.
    pub payload: P,
    /// Its queue, its state, its options and the rest of it.
    pub job: LiveJob,
}

/// Returns the live jobs of a payload's kind in all queues, in the order of their enqueue.
///
/// `client` is a `postgres::Transaction`, which sees what it enqueued, or a `postgres::Client`.
///
/// # Errors
/// *Invalid* if a payload is no `P`. Otherwise if the database rejects the statement.
pub fn enqueued<P: Payload>(client: &mut impl GenericClient) -> Result<Vec<EnqueuedJob<P>>> {
    let filter = JobFilter::new().kind(P::KIND).parameter()?;
    let (after, most) = (None::<i64>, i64::MAX);
    let parameters = sql::LIST_JOBS.typed(&[&filter, &after, &most]);
    let rows = client
        .query_typed(sql::LIST_JOBS.text, &parameters)
        .map_err(|error| {
            Error::from_postgres(format!("list the jobs of kind `{}`", P::KIND), error)
        })?;
    let jobs: Vec<LiveJob> = read_all(&rows)?;
    let typed = |job: LiveJob| {
        let version = Headers(job.headers.clone()).payload_version();
        let payload = read(job.payload.get(), version).map_err(|failure| {
            let (id, expected) = (job.id, std::any::type_name::<P>());
            Error::invalid(format!(
                "the payload of job {id} is no {expected}: {failure}"
            ))
        })?;
        Ok(EnqueuedJob { payload, job })
    };
    jobs.into_iter().map(typed).collect()
}
