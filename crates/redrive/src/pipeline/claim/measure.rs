//! Measures a queue before claims search it.

use crate::db::row::row;
use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;

row! {
    /// The size of a queue.
    pub(crate) struct Measured {
        /// The bytes of the ready jobs of all queues.
        pub(crate) bytes: i64,
        pub(crate) newest_id: i64,
        /// The ranks of its jobs with a priority, if they were looked for.
        pub(crate) ranks: Vec<i32>,
    }
}

/// Returns the size of the queue. Looks for ranks if it has more than this many bytes.
pub(crate) fn measure(session: &mut Session, queue: &str, ranks_above: i64) -> Result<Measured> {
    let doing = format!("measure queue `{queue}`");
    session.one(&doing, &sql::MEASURE_QUEUE, &[&queue, &ranks_above])
}
