//! Discard and prune: letters that nobody wants any more.

use std::time::{Duration, SystemTime};

use crate::act::Act;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::failure::clip;
use crate::filter::Letters;
use crate::job::{JobId, milliseconds};
use crate::sql;

/// How many letters one statement closes.
const DISCARD_BATCH: u64 = 500;
/// How many letters one statement deletes.
const PRUNE_BATCH: i64 = 2000;
/// The longest reason for a discard that is kept, in bytes.
const WHY_BYTES: usize = 1024;

impl Database {
    /// Closes open letters for good, and keeps why. They stay until they are pruned.
    ///
    /// Answers the ids of those that were closed. Each batch writes its row of the audit in its own
    /// transaction.
    ///
    /// # Errors
    /// *Invalid* when no reason is given; when the database refuses or does not answer.
    pub fn discard(&self, which: &Letters, act: &Act) -> Result<Vec<JobId>> {
        const DOING: &str = "discard letters";
        let Some(why) = act.reason() else {
            return Err(Error::invalid("a discard needs a reason"));
        };
        which.refuse_after()?;
        let why = clip(why.to_owned(), WHY_BYTES);
        let mut left = which.limit.unwrap_or(u64::MAX);
        let mut closed = Vec::new();
        let mut as_of: Option<SystemTime> = None;
        while left > 0 {
            let limit = i64::try_from(left.min(DISCARD_BATCH)).unwrap_or(i64::MAX);
            let (filter, act, why) = (which.filter()?, act.clone(), why.clone());
            let (ids, moment) = self.call_bulk(DOING, move |session| {
                let rows = session.query(
                    DOING,
                    &sql::DISCARD,
                    &[&filter, &as_of, &limit, &why, &act.by()],
                )?;
                let ids: Vec<JobId> = rows.iter().map(|row| JobId::new(row.get("id"))).collect();
                Ok((ids, rows.first().map(|row| row.get("as_of"))))
            })?;
            if ids.is_empty() {
                break;
            }
            as_of = moment;
            left -= ids.len() as u64;
            closed.extend(ids);
        }
        Ok(closed)
    }

    /// Deletes letters that were recovered or discarded longer ago than `older_than`, in batches,
    /// whatever the [rules of retention](crate::Retention) say. Open letters are never deleted.
    /// Answers how many are gone.
    ///
    /// # Errors
    /// When the database refuses or does not answer; what was deleted until then is deleted.
    pub fn prune(&self, older_than: Duration) -> Result<u64> {
        self.prune_by(older_than, &Act::new())
    }

    /// The same, with who does it and why for the audit.
    ///
    /// # Errors
    /// Those of [`prune`](Database::prune).
    pub fn prune_by(&self, older_than: Duration, act: &Act) -> Result<u64> {
        let age_ms = milliseconds(older_than);
        let mut pruned = 0;
        loop {
            let act = act.clone();
            let batch = self.call_bulk("prune letters", move |session| {
                let row = session.query_one(
                    "prune letters",
                    &sql::PRUNE,
                    &[&age_ms, &PRUNE_BATCH, &act.by(), &act.reason()],
                )?;
                Ok(row.get::<_, i64>("pruned").unsigned_abs())
            })?;
            if batch == 0 {
                return Ok(pruned);
            }
            pruned += batch;
        }
    }
}
