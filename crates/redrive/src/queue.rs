//! A queue: a named, isolated stream of jobs with its own workers and its own dead letters.

use std::sync::Arc;

use crate::database::Database;
use crate::error::Result;
use crate::name;
use crate::sql;

/// A queue of a database: a cheap handle, to be cloned at will.
///
/// There is nothing to create: a queue exists as long as it holds jobs or letters.
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
}

impl Queue {
    /// The queue of this name.
    ///
    /// # Errors
    /// *Invalid* when the name is empty, over 100 characters, blank at an edge, or has control
    /// characters.
    pub fn new(db: &Database, name: &str) -> Result<Queue> {
        name::check("queue", name)?;
        Ok(Queue {
            db: db.clone(),
            name: name.into(),
        })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.db
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// Whether it holds no live job: none ready, none delayed, none leased.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn is_drained(&self) -> Result<bool> {
        let queue = self.shared_name();
        self.db
            .call("look whether the queue is drained", move |session| {
                let row = session.query_one(
                    &format!("look whether queue `{queue}` is drained"),
                    &sql::DRAINED,
                    &[&&*queue],
                )?;
                Ok(row.get("drained"))
            })
    }
}
