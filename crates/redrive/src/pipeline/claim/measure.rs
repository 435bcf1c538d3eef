//! Measures a queue before claims search it, and stores the marks for other processes.

use std::collections::BTreeMap;

use super::ClaimRequest;
use super::search::{Measured, Ranks, SMALL_BYTES};
use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;

/// Returns the kinds that a claim takes, `None`: all, and the kinds that it leaves out then.
fn claimable<'a>(
    kinds: Option<&'a [String]>,
    except: Option<&'a [String]>,
) -> (Option<Vec<&'a String>>, Vec<&'a String>) {
    let except = except.unwrap_or_default();
    match kinds {
        Some(kinds) => {
            let claimed = kinds.iter().filter(|kind| !except.contains(kind));
            (Some(claimed.collect()), Vec::new())
        }
        None => (None, except.iter().collect()),
    }
}

/// Returns the size of the queue and the marks of other processes that claim the same jobs.
pub(crate) fn measure(
    session: &mut Session,
    claim: &ClaimRequest,
    ranks: Ranks,
) -> Result<Measured> {
    let queue = &*claim.queue;
    let (kinds, left_out) = claimable(claim.kinds.as_deref(), claim.except.as_deref());
    let search_above = match ranks {
        Ranks::Find => SMALL_BYTES,
        Ranks::Known => i64::MAX,
    };
    let row = session.query_one(
        &format!("measure queue `{queue}`"),
        &sql::MEASURE_QUEUE,
        &[&queue, &kinds, &left_out, &search_above],
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
    let (kinds, left_out) = claimable(claim.kinds.as_deref(), claim.except.as_deref());
    let (ranks, ids): (Vec<i32>, Vec<i64>) = marks.iter().unzip();
    let row = session.query_one(
        &format!("store the marks of queue `{queue}`"),
        &sql::STORE_MARKS,
        &[&queue, &kinds, &left_out, &ranks, &ids],
    )?;
    Ok(row.get("newest_id"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_with_an_open_breaker_are_not_claimable() {
        let [a, b, c] = ["a", "b", "c"].map(str::to_owned);
        let (both, odd) = ([a.clone(), b.clone()], [a.clone(), c]);
        for (kinds, except, claimed, left_out) in [
            (None, None, None, vec![]),
            (None, Some(&both[..1]), None, vec![&a]),
            (Some(&both[..]), None, Some(vec![&a, &b]), vec![]),
            (Some(&both[..]), Some(&odd[..]), Some(vec![&b]), vec![]),
        ] {
            assert_eq!(claimable(kinds, except), (claimed, left_out));
        }
    }
}
