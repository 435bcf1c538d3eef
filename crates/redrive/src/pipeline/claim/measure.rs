//! Measures a queue before claims search it.

use crate::db::ask::{Call, one};
use crate::db::row::row;
use crate::db::sql;

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

/// Returns the call that measures the queue. It looks for ranks if there are more than this many bytes.
pub(crate) fn measure(queue: &str, ranks_above: i64) -> Call<Measured> {
    let doing = format!("measure queue `{queue}`");
    one(&doing, &sql::MEASURE_QUEUE, &[&queue, &ranks_above])
}
