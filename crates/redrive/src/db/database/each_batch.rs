//! What operations on many rows have done after each batch, and whether they go on.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::db::database::Database;

/// Called after each batch.
pub(super) type Watch = Arc<dyn Fn(BatchProgress) -> ControlFlow<()> + Send + Sync>;

/// What an operation on many rows has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchProgress {
    /// How many rows changed: letters, jobs, audit records, or all kinds that an erasure removes.
    pub done: u64,
    /// How many were tried: those, and the ones that did not change. An edit leaves out those that it refuses.
    pub tried: u64,
    /// The audit record that all batches of the operation share, if there is one.
    pub audit: Option<i64>,
}

impl BatchProgress {
    /// Returns what an operation has done that changed every row that it tried.
    pub fn of(done: usize, audit: Option<i64>) -> BatchProgress {
        let done = BatchProgress::from(done as u64);
        BatchProgress { audit, ..done }
    }

    /// Adds rows that were tried and did not change.
    #[must_use]
    pub fn and_unchanged(self, rows: u64) -> BatchProgress {
        let tried = self.tried + rows;
        BatchProgress { tried, ..self }
    }
}

impl From<u64> for BatchProgress {
    fn from(done: u64) -> BatchProgress {
        BatchProgress {
            done,
            tried: done,
            audit: None,
        }
    }
}

impl Database {
    /// Returns this database with a function that its operations on many rows call after each batch, and deliveries after
    /// each letter. An operation stops when the function breaks, and returns what it has done.
    ///
    /// It watches changes of jobs; edits, discards, reopenings, restores, deliveries and redactions of letters; merges and splits
    /// of failure groups; prunes,
    /// retention, the archive and erasures. A redrive that can be stopped is a [run](crate::dlq::runs).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
    /// # db.migrate()?;
    /// use std::ops::ControlFlow;
    /// use redrive::Operator;
    /// use redrive::dlq::LetterFilter;
    ///
    /// let first_thousand = db.each_batch(|so_far| match so_far.done {
    ///     0..1000 => ControlFlow::Continue(()),
    ///     _ => ControlFlow::Break(()),
    /// });
    /// let tests = LetterFilter::new().queue("tests");
    /// first_thousand.dlq().discard(&tests, &Operator::new("maria@ops-1").reason("test data"))?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn each_batch(
        &self,
        watch: impl Fn(BatchProgress) -> ControlFlow<()> + Send + Sync + 'static,
    ) -> Database {
        Database {
            shared: Arc::clone(&self.shared),
            watch: Some(Arc::new(watch)),
        }
    }

    /// Tells what an operation has done so far, after a batch.
    pub(crate) fn go_on(&self, so_far: BatchProgress) -> ControlFlow<()> {
        match &self.watch {
            Some(watch) => watch(so_far),
            None => ControlFlow::Continue(()),
        }
    }
}
