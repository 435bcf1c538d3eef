//! Measures a queue before claims search it, and stores the marks for other processes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::search::{Measured, Ranks, SMALL_BYTES};
use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;

/// The jobs that a worker claims: of a queue, of these kinds.
#[derive(Clone, Debug)]
pub(crate) struct Claimable {
    pub(crate) queue: Arc<str>,
    /// `None`: all kinds.
    kinds: Option<Vec<String>>,
    /// The kinds that are left out. Empty if `kinds` lists them.
    left_out: Vec<String>,
}

impl Claimable {
    /// Jobs of these kinds, except those whose breaker is open.
    pub(crate) fn new(
        queue: Arc<str>,
        kinds: Option<&[String]>,
        except: Option<&[String]>,
    ) -> Claimable {
        let except = except.unwrap_or_default();
        let (kinds, left_out) = match kinds {
            Some(kinds) => {
                let claimed = kinds.iter().filter(|kind| !except.contains(kind));
                (Some(claimed.cloned().collect()), Vec::new())
            }
            None => (None, except.to_vec()),
        };
        Claimable {
            queue,
            kinds,
            left_out,
        }
    }
}

/// Returns the size of the queue and the marks of other processes that claim the same jobs.
pub(crate) fn measure(
    session: &mut Session,
    claimable: &Claimable,
    ranks: Ranks,
) -> Result<Measured> {
    let queue = &*claimable.queue;
    let search_above = match ranks {
        Ranks::Find => SMALL_BYTES,
        Ranks::Known => i64::MAX,
    };
    let row = session.query_one(
        &format!("measure queue `{queue}`"),
        &sql::MEASURE_QUEUE,
        &[&queue, &claimable.kinds, &claimable.left_out, &search_above],
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
    claimable: &Claimable,
    marks: &BTreeMap<i32, i64>,
) -> Result<i64> {
    let queue = &*claimable.queue;
    let (ranks, ids): (Vec<i32>, Vec<i64>) = marks.iter().unzip();
    let row = session.query_one(
        &format!("store the marks of queue `{queue}`"),
        &sql::STORE_MARKS,
        &[&queue, &claimable.kinds, &claimable.left_out, &ranks, &ids],
    )?;
    Ok(row.get("newest_id"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_with_an_open_breaker_are_not_claimable() {
        let list =
            |kinds: &[&str]| -> Vec<String> { kinds.iter().map(|&kind| kind.into()).collect() };
        let (both, b) = (|| Some(list(&["a", "b"])), Some(list(&["b"])));
        for (kinds, except, claimed, left_out) in [
            (None, None, None, list(&[])),
            (None, Some(list(&["a"])), None, list(&["a"])),
            (both(), None, both(), list(&[])),
            (both(), Some(list(&["a", "c"])), b, list(&[])),
        ] {
            let found = Claimable::new("q".into(), kinds.as_deref(), except.as_deref());
            assert_eq!((found.kinds, found.left_out), (claimed, left_out));
        }
    }
}
