//! Measures a queue before claims search it, and stores the marks for other processes.

use std::collections::BTreeMap;

use super::ClaimRequest;
use super::search::{Measured, Ranks, SMALL_BYTES};
use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;

/// Returns the size of the queue and the marks of other processes that claim the same kinds.
pub(crate) fn measure(
    session: &mut Session,
    claim: &ClaimRequest,
    ranks: Ranks,
) -> Result<Measured> {
    let queue = &*claim.queue;
    let search_above = match ranks {
        Ranks::Find => SMALL_BYTES,
        Ranks::Known => i64::MAX,
    };
    let row = session.query_one(
        &format!("measure queue `{queue}`"),
        &sql::MEASURE_QUEUE,
        &[
            &queue,
            &claim.kinds.as_deref(),
            &claim.except.as_deref(),
            &search_above,
        ],
    )?;
    let (ranks, ids): (Vec<i32>, Vec<i64>) = (row.get("ranks"), row.get("ids"));
    Ok(Measured {
        bytes: row.get("bytes"),
        newest: row.get("newest_id"),
        marks: ranks.into_iter().zip(ids).collect(),
    })
}

/// Stores marks by rank, and returns the newest id.
pub(crate) fn store_marks(
    session: &mut Session,
    claim: &ClaimRequest,
    marks: &BTreeMap<i32, i64>,
) -> Result<i64> {
    let queue = &*claim.queue;
    let (ranks, ids): (Vec<i32>, Vec<i64>) = marks.iter().unzip();
    let row = session.query_one(
        &format!("store the marks of queue `{queue}`"),
        &sql::STORE_MARKS,
        &[
            &queue,
            &claim.kinds.as_deref(),
            &claim.except.as_deref(),
            &ranks,
            &ids,
        ],
    )?;
    Ok(row.get("newest_id"))
}
