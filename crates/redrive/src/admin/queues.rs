//! The names of queues, for messages about names that do not exist.

use crate::db::admin::Admin;
use crate::dlq::prelude::*;

row! {
    /// Queues by name.
    #[derive(PartialEq, Eq)]
    pub struct KnownQueues {
        /// Whether the queue that was asked for has jobs, letters, failure groups, a worker or a rule of
        /// retention.
        pub is_known: bool,
        /// The first names in alphabetical order.
        pub names: Vec<String>,
    }
}

impl Admin<'_> {
    /// Returns whether a queue exists, and the names of at most `limit` queues. Counts nothing, so
    /// it is fast with any backlog.
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn queue_names(&self, queue: &str, limit: u32) -> Result<KnownQueues> {
        self.db.ask().one(
            "list the names of queues",
            &sql::QUEUE_NAMES,
            &[&queue, &i64::from(limit)],
        )
    }
}
