//! Enqueue: jobs into the database, one, many, and in the caller's own transaction.

use postgres::GenericClient;
use postgres::types::{ToSql, Type};

use crate::copy;
use crate::error::{Error, Result};
use crate::job::{JobId, NewJob};
use crate::payload::{Json, Payload};
use crate::queue::Queue;
use crate::sql;

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

    /// Stores a job with options: a delay, a priority, its own number of attempts.
    ///
    /// # Errors
    /// As [`Queue::enqueue`], and when an option is out of range.
    pub fn add(&self, job: NewJob) -> Result<JobId> {
        let mut ids = self.add_many(vec![job])?;
        ids.pop()
            .ok_or_else(|| Error::unavailable("could not enqueue: the answer had no id"))
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
    /// As [`Queue::add`]; the message names the first bad job by its place, from 1.
    pub fn add_many(&self, jobs: Vec<NewJob>) -> Result<Vec<JobId>> {
        check_all(&jobs)?;
        let queue = self.shared_name();
        let doing = format!("enqueue into queue `{queue}`");
        self.database().call(&doing.clone(), move |session| {
            let failed = |error| Error::from_postgres(doing.clone(), error);
            if jobs.len() <= COPY_ABOVE {
                let columns = Columns::of(&jobs);
                let rows = session.query(&doing, &sql::ENQUEUE, &columns.parameters(&&*queue))?;
                return Ok(rows.iter().map(|row| JobId::new(row.get("id"))).collect());
            }
            let mut transaction = session.client().transaction().map_err(failed)?;
            let ids = copy::enqueue(&mut transaction, &queue, &jobs).map_err(failed)?;
            transaction.commit().map_err(failed)?;
            Ok(ids)
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
        ids.pop()
            .ok_or_else(|| Error::unavailable("could not enqueue: the answer had no id"))
    }

    /// Stores many jobs in the caller's own transaction. Above 1,000 jobs it uses COPY, which
    /// needs a `Transaction` to be all or nothing.
    ///
    /// # Errors
    /// As [`Queue::add_in`].
    pub fn add_many_in(
        &self,
        client: &mut impl GenericClient,
        jobs: &[NewJob],
    ) -> Result<Vec<JobId>> {
        check_all(jobs)?;
        let failed =
            |error| Error::from_postgres(format!("enqueue into queue `{}`", self.name()), error);
        if jobs.len() > COPY_ABOVE {
            return copy::enqueue(client, self.name(), jobs).map_err(failed);
        }
        let columns = Columns::of(jobs);
        let queue = self.name();
        let parameters = columns.parameters(&queue);
        let types = [
            Type::TEXT,
            Type::TEXT_ARRAY,
            Type::JSONB_ARRAY,
            Type::INT8_ARRAY,
            Type::INT2_ARRAY,
            Type::INT4_ARRAY,
        ];
        let typed: Vec<(&(dyn ToSql + Sync), Type)> = parameters.into_iter().zip(types).collect();
        // Unprepared: one round trip on a connection whose statements are not ours to keep.
        let rows = client
            .query_typed(sql::ENQUEUE.text, &typed)
            .map_err(failed)?;
        Ok(rows.iter().map(|row| JobId::new(row.get("id"))).collect())
    }
}

fn check_all(jobs: &[NewJob]) -> Result<()> {
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
        }
    }

    fn parameters<'p>(&'p self, queue: &'p &'p str) -> [&'p (dyn ToSql + Sync); 6] {
        [
            queue,
            &self.kinds,
            &self.payloads,
            &self.delays,
            &self.priorities,
            &self.attempts,
        ]
    }
}
