//! Removes what a rehearsal left in its queue.

use crate::db::admin::Admin;
use crate::db::sql;
use crate::error::Result;
use crate::job::operator::Operator;

impl Admin<'_> {
    /// Removes every row of the queue of a rehearsal, `gameday-` and 12 hexadecimal digits, except
    /// its audit. Returns the number of jobs and letters that were removed.
    ///
    /// `redrive gameday` makes such queues and calls this at its end. Jobs, letters, archived
    /// letters, failure groups, runs and counters of the queue are gone after one transaction;
    /// a worker that still runs its jobs loses them. The metrics name 100 queues; counts that were
    /// added to `__other__`, because the queue was not among them, stay there.
    ///
    /// # Errors
    /// *Invalid* for any other name; otherwise if the database rejects the statement or does not
    /// answer.
    pub fn remove_gameday(&self, queue: &str, operator: &Operator) -> Result<u64> {
        const DOING: &str = "remove a rehearsal";
        let (queue, operator) = (queue.to_owned(), operator.clone());
        self.db.call_bulk(DOING, move |session| {
            let row = session.query_one(
                DOING,
                &sql::REMOVE_GAMEDAY,
                &[&queue, &operator.by(), &operator.given_reason()],
            )?;
            Ok(row.get::<_, i64>("removed").unsigned_abs())
        })
    }
}
