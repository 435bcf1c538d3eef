//! Enqueue: jobs into the database, one, many, and in the caller's own transaction.

use postgres::{GenericClient, Row};

use crate::copy;
use crate::error::{Error, Result};
use crate::job::{JobId, NewJob};
use crate::payload::{Json, Payload};
use crate::queue::Queue;
use crate::session::Parameter;
use crate::sql::{self, Sql};

/// Above this many jobs a bulk enqueue uses COPY; up to it, one INSERT is as fast.
const COPY_ABOVE: usize = 1000;

impl Queue {
    /// Stores a job with this payload; it is durable when the call returns.
    ///
    /// To store it together with your own writes, see [`Queue::enqueue_in`].
    ///
    /// # Errors
    /// *Invalid* when the payload cannot be stored (see [`NewJob::new`]); *unavailable* when the
    /// database does not answer: then the job may or may not be stored.
    pub fn enqueue<P: Payload>(&self, payload: &P) -> Result<JobId> {
        self.add(NewJob::new(payload)?)
    }

    /// Stores a job with options: a delay, a priority, its own number of attempts. When a live job
    /// has its [unique key](NewJob::unique) nothing is stored, and the answer is the id of that one.
    ///
    /// # Errors
    /// As [`Queue::enqueue`], and when an option is out of range.
    pub fn add(&self, job: NewJob) -> Result<JobId> {
        let mut ids = self.add_many(vec![job])?;
        ids.pop().ok_or_else(no_id)
    }

    /// Stores a job with a [unique key](NewJob::unique), and tells whether it did.
    ///
    /// Unlike any other enqueue it is safe to repeat when its answer was lost, as long as the job
    /// lives.
    ///
    /// ```
    /// # use redrive::{NewJob, Queue, Unique};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
    /// # db.migrate()?;
    /// # let reports = Queue::new(&db, "reports")?;
    /// let report = || Ok::<_, redrive::Error>(NewJob::raw("report", "{}")?.unique("today"));
    /// let first = reports.add_unique(report()?)?.id();
    /// assert_eq!(reports.add_unique(report()?)?, Unique::Existing(first));
    /// # db.cancel(first)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Queue::add`].
    pub fn add_unique(&self, job: NewJob) -> Result<Unique> {
        let added = self.add_all(vec![job])?;
        added.into_iter().next().ok_or_else(no_id)
    }

    /// Stores a job with a [unique key](NewJob::unique) in the caller's own transaction, and tells
    /// whether it did. Until that transaction ends, whoever stores a job of the same key waits.
    ///
    /// # Errors
    /// As [`Queue::add_in`].
    pub fn add_unique_in(&self, client: &mut impl GenericClient, job: NewJob) -> Result<Unique> {
        let added = self.add_all_in(client, &[job])?;
        added.into_iter().next().ok_or_else(no_id)
    }

    /// Stores many jobs at once: all of them, or none when any of them is refused.
    ///
    /// The ids are in the order of the payloads.
    ///
    /// # Errors
    /// As [`Queue::enqueue`].
    pub fn enqueue_many<'a, P: Payload + 'a>(
        &self,
        payloads: impl IntoIterator<Item = &'a P>,
    ) -> Result<Vec<JobId>> {
        self.add_many(
            payloads
                .into_iter()
                .map(NewJob::new)
                .collect::<Result<_>>()?,
        )
    }

    /// Stores many jobs with options at once: all of them, or none when any of them is refused.
    ///
    /// # Errors
    /// As [`Queue::add`]; the message names the first bad job by its place, from 1. *Invalid* as
    /// well for more than 1,000 jobs when any of them has a unique key.
    pub fn add_many(&self, jobs: Vec<NewJob>) -> Result<Vec<JobId>> {
        Ok(ids(self.add_all(jobs)?))
    }

    fn add_all(&self, jobs: Vec<NewJob>) -> Result<Vec<Unique>> {
        check_all(&jobs)?;
        let queue = self.shared_name();
        let doing = format!("enqueue into queue `{queue}`");
        self.database().call(&doing.clone(), move |session| {
            let failed = |error| Error::from_postgres(doing.clone(), error);
            if jobs.len() <= COPY_ABOVE {
                let columns = Columns::of(&jobs);
                let name = &*queue;
                let parameters = columns.parameters(&name);
                let rows = session.query(&doing, columns.statement(), &parameters)?;
                return Ok(columns.answers(&rows));
            }
            let mut transaction = session.client().transaction().map_err(failed)?;
            let ids = copy::enqueue(&mut transaction, &queue, &jobs).map_err(failed)?;
            transaction.commit().map_err(failed)?;
            Ok(ids.into_iter().map(Unique::Inserted).collect())
        })
    }

    /// Stores a job in the caller's own transaction: it exists when that transaction commits, and
    /// never if it does not. The rest of the transaction and the job are one.
    ///
    /// `client` is a `postgres::Transaction`, or a `postgres::Client`. One round trip.
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
    /// As [`Queue::enqueue`]. After an error of the database the transaction is aborted, as after
    /// any failed statement; a payload that is refused is found before anything is sent.
    pub fn enqueue_in<P: Payload>(
        &self,
        client: &mut impl GenericClient,
        payload: &P,
    ) -> Result<JobId> {
        self.add_in(client, NewJob::new(payload)?)
    }

    /// Stores a job with options in the caller's own transaction.
    ///
    /// # Errors
    /// As [`Queue::enqueue_in`], and when an option is out of range.
    pub fn add_in(&self, client: &mut impl GenericClient, job: NewJob) -> Result<JobId> {
        let mut ids = self.add_many_in(client, &[job])?;
        ids.pop().ok_or_else(no_id)
    }

    /// Stores many jobs in the caller's own transaction. Above 1,000 jobs it uses COPY, under
    /// a savepoint: all or nothing.
    ///
    /// # Errors
    /// As [`Queue::add_in`].
    pub fn add_many_in(
        &self,
        client: &mut impl GenericClient,
        jobs: &[NewJob],
    ) -> Result<Vec<JobId>> {
        Ok(ids(self.add_all_in(client, jobs)?))
    }

    fn add_all_in(&self, client: &mut impl GenericClient, jobs: &[NewJob]) -> Result<Vec<Unique>> {
        check_all(jobs)?;
        let failed =
            |error| Error::from_postgres(format!("enqueue into queue `{}`", self.name()), error);
        if jobs.len() > COPY_ABOVE {
            // The jobs and their count together, also on a connection without a transaction.
            let mut transaction = client.transaction().map_err(failed)?;
            let ids = copy::enqueue(&mut transaction, self.name(), jobs).map_err(failed)?;
            transaction.commit().map_err(failed)?;
            return Ok(ids.into_iter().map(Unique::Inserted).collect());
        }
        let columns = Columns::of(jobs);
        let (queue, statement) = (self.name(), columns.statement());
        // Unprepared: one round trip on a connection whose statements are not ours to keep.
        let rows = client
            .query_typed(
                statement.text,
                &statement.typed(&columns.parameters(&queue)),
            )
            .map_err(failed)?;
        Ok(columns.answers(&rows))
    }
}

/// What became of the enqueue of a job with a [unique key](NewJob::unique).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unique {
    /// It was stored, under this id.
    Inserted(JobId),
    /// Nothing was stored: this live job has the key.
    Existing(JobId),
}

impl Unique {
    /// The job that has the key now.
    pub fn id(self) -> JobId {
        match self {
            Unique::Inserted(id) | Unique::Existing(id) => id,
        }
    }
}

fn ids(added: Vec<Unique>) -> Vec<JobId> {
    added.into_iter().map(Unique::id).collect()
}

fn no_id() -> Error {
    Error::unavailable("could not enqueue: the answer had no id")
}

fn check_all(jobs: &[NewJob]) -> Result<()> {
    if jobs.len() > COPY_ABOVE && jobs.iter().any(|job| job.unique_key.is_some()) {
        return Err(Error::invalid(format!(
            "{} jobs are too many at once: with unique keys among them {COPY_ABOVE} are the most",
            jobs.len()
        )));
    }
    for (index, job) in jobs.iter().enumerate() {
        job.check().map_err(|error| match jobs.len() {
            1 => error,
            _ => Error::invalid(format!(
                "job {} of {} was refused, and so all",
                index + 1,
                jobs.len()
            ))
            .caused_by(error),
        })?;
    }
    Ok(())
}

/// The jobs, column by column, as the statement takes them.
struct Columns<'a> {
    kinds: Vec<&'a str>,
    payloads: Vec<&'a Json>,
    delays: Vec<i64>,
    priorities: Vec<i16>,
    attempts: Vec<i32>,
    /// `None`: none of them has one, and they need not pay for those that do.
    keys: Option<Vec<Option<&'a str>>>,
}

impl<'a> Columns<'a> {
    fn of(jobs: &'a [NewJob]) -> Columns<'a> {
        Columns {
            kinds: jobs.iter().map(|job| &*job.kind).collect(),
            payloads: jobs.iter().map(|job| &job.payload).collect(),
            delays: jobs.iter().map(NewJob::delay_ms).collect(),
            priorities: jobs.iter().map(|job| job.priority).collect(),
            attempts: jobs
                .iter()
                .map(|job| job.max_attempts.cast_signed())
                .collect(),
            keys: jobs
                .iter()
                .any(|job| job.unique_key.is_some())
                .then(|| jobs.iter().map(|job| job.unique_key.as_deref()).collect()),
        }
    }

    fn statement(&self) -> &'static Sql {
        match (&self.keys, &*self.delays) {
            (Some(_), _) => &sql::ENQUEUE_UNIQUE,
            (None, [0]) => &sql::ENQUEUE_ONE,
            (None, _) => &sql::ENQUEUE,
        }
    }

    fn answers(&self, rows: &[Row]) -> Vec<Unique> {
        let answer = |row: &Row| {
            let id = JobId::new(row.get("id"));
            match self.keys {
                Some(_) if !row.get::<_, bool>("is_new") => Unique::Existing(id),
                Some(_) | None => Unique::Inserted(id),
            }
        };
        rows.iter().map(answer).collect()
    }

    /// What the statement takes.
    fn parameters<'p>(&'p self, queue: &'p &'p str) -> Vec<Parameter<'p>> {
        let columns: [Parameter<'p>; 5] = match (&self.keys, &*self.delays) {
            (None, [0]) => {
                return vec![
                    queue,
                    &self.kinds[0],
                    self.payloads[0],
                    &self.priorities[0],
                    &self.attempts[0],
                ];
            }
            _ => [
                &self.kinds,
                &self.payloads,
                &self.delays,
                &self.priorities,
                &self.attempts,
            ],
        };
        let keys = self.keys.as_ref();
        std::iter::once(queue as Parameter<'p>)
            .chain(columns)
            .chain(keys.map(|keys| keys as Parameter<'p>))
            .collect()
    }
}
