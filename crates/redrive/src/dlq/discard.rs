//! Discards letters, and deletes closed ones.

use std::time::{Duration, SystemTime};

use crate::db::sql;
use crate::dlq::filter::LetterFilter;
use crate::dlq::handle::Dlq;
use crate::error::{Error, Result};
use crate::job::error_report::clip;
use crate::job::job::{JobId, milliseconds};
use crate::job::operator::Operator;

/// The letters per discard statement.
const DISCARD_BATCH: u64 = 500;
/// The letters per prune statement.
const PRUNE_BATCH: i64 = 2000;
/// The longest stored reason, in bytes.
const WHY_BYTES: usize = 1024;

impl Dlq<'_> {
    /// Closes open letters and records the reason. They stay in the table until retention
    /// or a prune deletes them.
    ///
    /// Returns the ids of the discarded letters. Each batch of 500 is one transaction with
    /// its audit row.
    ///
    /// # Errors
    /// *Invalid* without a reason; otherwise if the database rejects a statement or does
    /// not answer.
    pub fn discard(&self, filter: &LetterFilter, operator: &Operator) -> Result<Vec<JobId>> {
        const DOING: &str = "discard letters";
        let Some(why) = operator.given_reason() else {
            return Err(Error::invalid("a discard needs a reason"));
        };
        filter.refuse_after()?;
        let why = clip(why.to_owned(), WHY_BYTES);
        let mut left = filter.limit.unwrap_or(u64::MAX);
        let mut closed = Vec::new();
        let mut as_of: Option<SystemTime> = None;
        while left > 0 {
            let limit = i64::try_from(left.min(DISCARD_BATCH)).unwrap_or(i64::MAX);
            let (filter, operator, why) = (filter.parameter()?, operator.clone(), why.clone());
            let (ids, moment) = self.db.call_bulk(DOING, move |session| {
                let rows = session.query(
                    DOING,
                    &sql::DISCARD,
                    &[&filter, &as_of, &limit, &why, &operator.by()],
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

    /// Deletes letters that were recovered or discarded more than `older_than` ago, in
    /// batches.
    ///
    /// This ignores the [retention rules](crate::dlq::RetentionRule) and never deletes an
    /// open letter. Returns the number of deleted letters.
    ///
    /// # Errors
    /// If the database rejects a statement or does not answer. Letters deleted before the
    /// error stay deleted.
    pub fn prune(&self, older_than: Duration, operator: &Operator) -> Result<u64> {
        let age_ms = milliseconds(older_than);
        let mut pruned = 0;
        loop {
            let operator = operator.clone();
            let batch = self.db.call_bulk("prune letters", move |session| {
                let row = session.read_committed("prune letters", |session| {
                    session.query_one(
                        "prune letters",
                        &sql::PRUNE,
                        &[
                            &age_ms,
                            &PRUNE_BATCH,
                            &operator.by(),
                            &operator.given_reason(),
                        ],
                    )
                })?;
                Ok(row.get::<_, i64>("pruned").unsigned_abs())
            })?;
            if batch == 0 {
                return Ok(pruned);
            }
            pruned += batch;
        }
    }
}
