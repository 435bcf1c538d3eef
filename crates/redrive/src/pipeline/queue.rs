//! Queues: named, isolated streams of jobs with their own workers and dead letters.

use std::sync::Arc;

use crate::db::database::Database;
use crate::db::sql;
use crate::error::{Error, Result};
use crate::job::name;
use crate::job::payload::Payload;
use crate::pipeline::coalesce::Coalescer;

/// A queue of a database, which exists while it holds jobs or letters: you need not create it.
///
/// A clone is cheap, and enqueues through clones share statements when they wait at the same moment.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// let orders = redrive::Queue::new(&db, "orders")?;
/// assert_eq!(orders.name(), "orders");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Queue {
    db: Database,
    name: Arc<str>,
    pub(crate) coalescer: Arc<Coalescer>,
}

impl Queue {
    /// Returns the queue with this name.
    ///
    /// # Errors
    /// *Invalid* if the name is empty, longer than 100 characters, begins or ends with a space, or
    /// contains control characters.
    pub fn new(db: &Database, name: &str) -> Result<Queue> {
        name::check("queue", name)?;
        Ok(Queue {
            db: db.clone(),
            name: name.into(),
            coalescer: Arc::default(),
        })
    }

    /// Returns the queue that the type of a payload names.
    ///
    /// # Errors
    /// *Invalid* if it names none, or not a valid one.
    pub fn of<P: Payload>(db: &Database) -> Result<Queue> {
        let queue = P::QUEUE.ok_or_else(|| {
            let kind = P::KIND;
            Error::invalid(format!(
                "the payload of kind `{kind}` names no queue: set `QUEUE`"
            ))
        })?;
        Queue::new(db, queue)
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the database.
    pub fn database(&self) -> &Database {
        &self.db
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// Returns whether the queue holds no live job: none ready, delayed or leased.
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn is_drained(&self) -> Result<bool> {
        are_drained(&self.db, &[self.name.to_string()])
    }
}

/// Returns whether none of these queues holds a live job at one moment.
pub(crate) fn are_drained(db: &Database, queues: &[String]) -> Result<bool> {
    let doing = format!("check whether queue `{}` is drained", queues.join("`, `"));
    let ask = db.ask();
    ask.one(&doing, &sql::IS_DRAINED, &[&queues])
}
