//! Deletes archived letters.

use std::ops::ControlFlow;

use crate::db::sql;
use crate::dlq::filter::LetterFilter;
use crate::dlq::handle::Dlq;
use crate::error::Result;
use crate::job::operator::Operator;

/// The letters per statement.
const BATCH: u64 = 2000;

impl Dlq<'_> {
    /// Deletes archived letters in batches. Returns their number.
    ///
    /// This cannot be undone. Each batch of 2,000 is one transaction with its audit row.
    ///
    /// # Errors
    /// *Invalid* with [`LetterFilter::after`]; otherwise if the database rejects a statement
    /// or does not answer. Letters deleted before the error stay deleted.
    pub fn delete_archived(&self, filter: &LetterFilter, operator: &Operator) -> Result<u64> {
        self.delete_archived_while(filter, operator, |_| ControlFlow::Continue(()))
    }

    /// Deletes archived letters as [`delete_archived`](Dlq::delete_archived) does, and stops
    /// when `go_on` breaks.
    ///
    /// Calls `go_on` after each batch with the number deleted so far.
    ///
    /// # Errors
    /// Those of [`delete_archived`](Dlq::delete_archived).
    pub fn delete_archived_while(
        &self,
        filter: &LetterFilter,
        operator: &Operator,
        mut go_on: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<u64> {
        const DOING: &str = "delete archived letters";
        filter.refuse_after()?;
        let mut left = filter.limit.unwrap_or(u64::MAX);
        let (mut deleted, mut audit): (u64, Option<i64>) = (0, None);
        while left > 0 {
            let most = i64::try_from(left.min(BATCH)).unwrap_or(i64::MAX);
            let (filter, operator) = (filter.parameter()?, operator.clone());
            let batch: Option<(i64, Option<i64>)> = self.db.call_bulk(DOING, move |session| {
                let rows = session.query(
                    DOING,
                    &sql::DELETE_ARCHIVED,
                    &[
                        &filter,
                        &most,
                        &operator.by(),
                        &operator.given_reason(),
                        &audit,
                    ],
                )?;
                let first = rows.first();
                Ok(first.map(|row| (row.get("letters"), row.get("audit_id"))))
            })?;
            let Some((letters, first)) = batch else { break };
            audit = first;
            deleted += letters.unsigned_abs();
            left = left.saturating_sub(letters.unsigned_abs());
            if go_on(deleted).is_break() {
                break;
            }
        }
        Ok(deleted)
    }
}
