//! Measures a queue before claims search it.

use super::search::{Measured, Ranks, SMALL_BYTES};
use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;

/// Returns the size of the queue.
pub(crate) fn measure(session: &mut Session, queue: &str, ranks: Ranks) -> Result<Measured> {
    let search_above = match ranks {
        Ranks::Find => SMALL_BYTES,
        Ranks::Known => i64::MAX,
    };
    let row = session.query_one(
        &format!("measure queue `{queue}`"),
        &sql::MEASURE_QUEUE,
        &[&queue, &search_above],
    )?;
    Ok(Measured {
        bytes: row.get("bytes"),
        newest: row.get("newest_id"),
        ranks: row.get("ranks"),
    })
}
