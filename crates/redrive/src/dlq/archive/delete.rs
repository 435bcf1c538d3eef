//! Deletes archived letters.

use std::ops::ControlFlow;

use crate::dlq::prelude::*;

/// The letters per statement.
const BATCH: u64 = 2000;

impl Dlq<'_> {
    /// Deletes archived letters in batches. Returns their number.
    ///
    /// This cannot be undone. Each batch of 2,000 is one transaction with its audit row.
    ///
    /// # Errors
    /// *Invalid* with [`LetterFilter::after`]; otherwise if the database fails.
    pub fn delete_archived(&self, filter: &LetterFilter, operator: &Operator) -> Result<u64> {
        self.delete_archived_while(filter, operator, |_| ControlFlow::Continue(()))
    }

    /// Deletes archived letters as [`delete_archived`](Dlq::delete_archived) does, calls `go_on`
    /// after each batch with the number deleted so far, and stops when it breaks.
    ///
    /// # Errors
    /// Those of [`delete_archived`](Dlq::delete_archived).
    pub fn delete_archived_while(
        &self,
        filter: &LetterFilter,
        operator: &Operator,
        mut go_on: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<u64> {
        let mut audit: Option<i64> = None;
        filter.in_batches(BATCH, |deleted: &mut u64, parameter, most| -> Taken {
            let batch: Option<(u64, Option<i64>)> = self.db.ask_bulk().first(
                "delete archived letters",
                &sql::DELETE_ARCHIVED,
                &[parameter, &most, operator, &audit],
            )?;
            let Some((letters, first)) = batch else {
                return Ok(None);
            };
            audit = first;
            *deleted += letters;
            Ok(go_on(*deleted).is_continue().then_some(letters))
        })
    }
}
