//! Enqueue: stores one job or many, also inside the caller's own transaction.

use std::borrow::Borrow;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use postgres::GenericClient;

use crate::db::database::Database;
use crate::db::session::{AWAITS_CALLER, Session};
use crate::error::{Error, Result};
use crate::job::job::JobId;
use crate::job::new_job::NewJob;
use crate::job::payload::Payload;
use crate::pipeline::copy;
use crate::pipeline::insert::{Enqueued, MAX_INSERTED_JOBS, insert};
use crate::pipeline::queue::Queue;

/// What the caller must know if the answer is lost.
const MAY_BE_STORED: &str = "the database may have stored it nevertheless";

impl Database {
    /// Stores a job in the [queue of its payload's type](Payload::QUEUE) and returns its id.
    ///
    /// [`Queue::enqueue`] does the same for a queue that you keep, and lets concurrent enqueues share
    /// statements.
    ///
    /// # Errors
    /// As [`Queue::enqueue`]. *Invalid* also if the type names no queue.
    pub fn enqueue<P: Payload>(&self, payload: &P) -> Result<JobId> {
        Queue::of::<P>(self)?.enqueue(payload)
    }

    /// Stores a job in the queue of its payload's type, in the caller's transaction, and returns its id.
    ///
    /// # Errors
    /// As [`Queue::enqueue_in`]. *Invalid* also if the type names no queue.
    pub fn enqueue_in<P: Payload>(
        &self,
        client: &mut impl GenericClient,
        payload: &P,
    ) -> Result<JobId> {
        Queue::of::<P>(self)?.enqueue_in(client, payload)
    }
}

impl Queue {
    /// Stores a job with this payload and returns its id. The job is durable when the call returns.
    ///
    /// Use [`enqueue_in`](Queue::enqueue_in) to store the job together with your own writes, and
    /// [`enqueue_job`](Queue::enqueue_job) for a delay, a priority or a unique key.
    ///
    /// # Errors
    /// *Invalid* if the payload cannot be stored (see [`NewJob::new`]). *Unavailable* if the
    /// database does not answer; the message says if the job may be stored.
    pub fn enqueue<P: Payload>(&self, payload: &P) -> Result<JobId> {
        Ok(self.enqueue_job(NewJob::new(payload)?)?.id())
    }

    /// Stores a job in the caller's transaction and returns its id.
    ///
    /// The job exists if and when that transaction commits. `client` is a
    /// `postgres::Transaction` or a `postgres::Client`. Takes one round trip.
    ///
    /// ```
    /// # use redrive::{Payload, Queue};
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct Ship { order: i64 }
    /// # impl Payload for Ship { const KIND: &'static str = "ship"; }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let url = std::env::var("DATABASE_URL")?;
    /// # let db = redrive::connect(&url)?;
    /// # db.migrate()?;
    /// # let orders = Queue::new(&db, "orders")?;
    /// # let mut client = redrive::postgres::Client::connect(&url, redrive::postgres::NoTls)?;
    /// # client.batch_execute("CREATE TABLE IF NOT EXISTS shop_orders (id bigint, paid boolean)")?;
    /// let mut tx = client.transaction()?;
    /// tx.execute("UPDATE shop_orders SET paid = true WHERE id = 42", &[])?;
    /// orders.enqueue_in(&mut tx, &Ship { order: 42 })?;
    /// tx.commit()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`enqueue`](Queue::enqueue). An invalid payload is rejected before anything is sent; an
    /// error of the database aborts the transaction.
    pub fn enqueue_in<P: Payload>(
        &self,
        client: &mut impl GenericClient,
        payload: &P,
    ) -> Result<JobId> {
        Ok(self.enqueue_job_in(client, &NewJob::new(payload)?)?.id())
    }

    /// Stores many jobs, all or none, and returns their ids in the order of the payloads.
    ///
    /// [`enqueue_jobs_in`](Queue::enqueue_jobs_in) does it in your transaction.
    ///
    /// # Errors
    /// As [`enqueue`](Queue::enqueue). The message names the first invalid job by its position.
    pub fn enqueue_many<P: Payload>(&self, payloads: &[P]) -> Result<Vec<JobId>> {
        let count = payloads.len();
        let new_job = |(index, payload)| {
            NewJob::new(payload).map_err(|error| at_position(index, count, error))
        };
        let jobs = payloads.iter().enumerate().map(new_job);
        let enqueued = self.store_all(jobs.collect::<Result<_>>()?)?;
        Ok(enqueued.into_iter().map(Enqueued::id).collect())
    }

    /// Stores a job with options: a delay, a priority, a number of attempts, a unique key.
    ///
    /// Returns [`Enqueued::Existing`] without storing anything if a live job of the queue holds
    /// the same [unique key](NewJob::unique). With a unique key this call is safe to repeat while
    /// the job lives. A reference is copied.
    ///
    /// ```
    /// # use redrive::{Enqueued, NewJob, Queue};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
    /// # db.migrate()?;
    /// # let reports = Queue::new(&db, "reports")?;
    /// let report = NewJob::raw("report", "{}")?.unique("today");
    /// let first = reports.enqueue_job(&report)?.id();
    /// assert_eq!(reports.enqueue_job(report)?, Enqueued::Existing(first));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`enqueue`](Queue::enqueue). *Invalid* also if an option is out of range.
    pub fn enqueue_job(&self, job: impl Into<NewJob>) -> Result<Enqueued> {
        let job = job.into();
        job.check(self.name())?;
        let within = self.database().call_timeout();
        let stored = match job.is_plain() {
            true => {
                let store = |jobs, within| self.store(jobs, within);
                self.coalescer.enqueue(self.name(), job, within, &store)
            }
            false => self.store([job].into(), within).map(|stored| stored[0]),
        };
        stored.map_err(|error| error.if_lost(MAY_BE_STORED))
    }

    /// Stores a job with options in the caller's transaction.
    ///
    /// # Errors
    /// As [`enqueue_in`](Queue::enqueue_in). *Invalid* also if an option is out of range.
    pub fn enqueue_job_in(
        &self,
        client: &mut impl GenericClient,
        job: impl Borrow<NewJob>,
    ) -> Result<Enqueued> {
        Ok(self.enqueue_jobs_in(client, slice::from_ref(job.borrow()))?[0])
    }

    /// Stores many jobs with options, all or none, in one transaction.
    ///
    /// # Errors
    /// As [`enqueue_job`](Queue::enqueue_job). The message names the first invalid job by its
    /// position, from 1. *Invalid* also for more than 1,000 jobs if one of them has a unique key.
    pub fn enqueue_jobs(&self, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        self.store_all(jobs.to_vec())
    }

    /// Stores many jobs with options in the caller's transaction.
    ///
    /// More than 1,000 jobs are sent under a savepoint, with COPY unless one has headers or a group.
    ///
    /// # Errors
    /// As [`enqueue_jobs`](Queue::enqueue_jobs) and [`enqueue_in`](Queue::enqueue_in).
    pub fn enqueue_jobs_in(
        &self,
        client: &mut impl GenericClient,
        jobs: &[NewJob],
    ) -> Result<Vec<Enqueued>> {
        self.check_all(jobs)?;
        if jobs.len() <= MAX_INSERTED_JOBS {
            return self.insert_in(client, jobs);
        }
        let failed = |error| self.failed(error);
        // A savepoint, or a transaction if the connection has none: jobs and counters together.
        let mut transaction = client.transaction().map_err(failed)?;
        let enqueued = self.store_in(&mut transaction, jobs)?;
        transaction.commit().map_err(failed)?;
        Ok(enqueued)
    }

    /// Stores the jobs that `next` returns, chunk by chunk, until it returns `None`: all or none, in one transaction.
    ///
    /// For more jobs than fit into memory. A chunk of up to 10,000 jobs is a good size. Each takes at most the deadline
    /// for bulk operations.
    ///
    /// # Errors
    /// Those of `next`; as [`enqueue_jobs`](Queue::enqueue_jobs) for each chunk.
    pub fn enqueue_chunks<E: From<Error>>(
        &self,
        mut next: impl FnMut() -> Result<Option<Vec<NewJob>>, E>,
    ) -> Result<(), E> {
        let doing: Arc<str> = format!("enqueue into queue `{}`", self.name()).into();
        let within = self.database().bulk_timeout();
        let mut caller = self.database().transaction_caller();
        let does = Arc::clone(&doing);
        caller.call(&doing, within, move |session| {
            session.begin(&does, AWAITS_CALLER)
        })?;
        while let Some(jobs) = next()? {
            self.check_all(&jobs)?;
            let (queue, does) = (self.clone(), Arc::clone(&doing));
            caller.call(&doing, within, move |session| {
                session.continues(&does)?;
                queue.store_in(session.client(), &jobs).map(drop)
            })?;
        }
        let does = Arc::clone(&doing);
        let committed = caller.call(&doing, within, move |session| {
            session.continues(&does)?;
            session.end(&does, Ok(()))
        });
        Ok(committed.map_err(|error| error.if_lost(MAY_BE_STORED))?)
    }

    /// Stores checked jobs in an open transaction.
    fn store_in(&self, client: &mut impl GenericClient, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        if jobs.len() <= MAX_INSERTED_JOBS || jobs.iter().any(NewJob::is_labelled) {
            let mut enqueued = Vec::with_capacity(jobs.len());
            for some in jobs.chunks(MAX_INSERTED_JOBS) {
                enqueued.extend(self.insert_in(client, some)?);
            }
            return Ok(enqueued);
        }
        let ids = copy::enqueue(client, self.name(), jobs).map_err(|error| self.failed(error))?;
        Ok(ids.into_iter().map(Enqueued::New).collect())
    }

    /// Stores jobs of one call through the pool.
    fn store_all(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>> {
        self.check_all(&jobs)?;
        let stored = self.store(jobs.into(), self.database().call_timeout());
        stored.map_err(|error| error.if_lost(MAY_BE_STORED))
    }

    /// Stores checked jobs of one or more calls through the pool.
    fn store(&self, jobs: Arc<[NewJob]>, within: Duration) -> Result<Vec<Enqueued>> {
        let queue = self.clone();
        let doing = format!("enqueue into queue `{}`", self.name());
        self.database()
            .call_within(&doing.clone(), within, move |session| {
                if jobs.len() > MAX_INSERTED_JOBS {
                    let store = |session: &mut Session| queue.store_in(session.client(), &jobs);
                    return session.read_committed(&doing, "", store);
                }
                insert(queue.name(), &jobs, |sql, values| {
                    session.query(&doing, sql, values)
                })
            })
    }

    fn insert_in(&self, client: &mut impl GenericClient, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
        // Not prepared: one round trip, and nothing stays on a connection of the caller's.
        insert(self.name(), jobs, |sql, values| {
            client
                .query_typed(sql.text, &sql.typed(values))
                .map_err(|error| self.failed(error))
        })
    }

    fn check_all(&self, jobs: &[NewJob]) -> Result<()> {
        if jobs.len() > MAX_INSERTED_JOBS && jobs.iter().any(|job| job.unique_key.is_some()) {
            return Err(Error::invalid(format!(
                "{} jobs are too many for one call with unique keys; the limit is {MAX_INSERTED_JOBS}",
                jobs.len()
            )));
        }
        for (index, job) in jobs.iter().enumerate() {
            job.check(self.name())
                .map_err(|error| at_position(index, jobs.len(), error))?;
        }
        Ok(())
    }

    fn failed(&self, error: postgres::Error) -> Error {
        Error::from_postgres(format!("enqueue into queue `{}`", self.name()), error)
    }
}

fn at_position(index: usize, jobs: usize, error: Error) -> Error {
    match jobs {
        1 => error,
        _ => Error::invalid(format!(
            "job {} of {jobs} is invalid; nothing was enqueued",
            index + 1
        ))
        .caused_by(error),
    }
}
