//! Moves archived letters back into the table.

use crate::db::database::BatchProgress;
use crate::dlq::prelude::*;

/// The letters per statement. One of large letters has fewer.
const PAGE: u64 = 500;

/// The letters that a restore moved back, and those that it left in the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// The restored letters.
    pub letters: Vec<JobId>,
    /// The letters that stay in the archive, and why.
    pub left: Vec<(JobId, NotRestored)>,
    /// The audit record of the operation, by which [`LetterFilter::audit`] selects the
    /// restored letters; `None`: it restored none.
    pub audit: Option<i64>,
}

words! {
    /// The reason why a letter stays in the archive.
    pub enum NotRestored is "reason" {
        /// A letter has its id.
        IdTaken = "id_taken": "another letter has the id",
        /// A letter has its source and position: the failure was captured again.
        PositionTaken = "position_taken": "the failure was captured again",
    }
}

impl Dlq<'_> {
    /// Returns what [`restore`](Dlq::restore) would do. Changes nothing.
    ///
    /// # Errors
    /// *Invalid* with [`LetterFilter::after`]; otherwise if the database fails.
    pub fn preview_restore(&self, filter: &LetterFilter) -> Result<Restored> {
        self.restore_pages(filter, None)
    }

    /// Moves archived letters back into the table. A restored letter has its id, history,
    /// versions and counts, and is open, or quarantined if it was.
    ///
    /// A letter stays in the archive if its id or position is taken. Each batch of 500 is one
    /// transaction with its audit row.
    ///
    /// # Errors
    /// *Invalid* with [`LetterFilter::after`]; otherwise if the database fails.
    pub fn restore(&self, filter: &LetterFilter, operator: &Operator) -> Result<Restored> {
        self.restore_pages(filter, Some(operator))
    }

    /// Restores letters page by page. Without an operator, it only finds out what a restore would do.
    fn restore_pages(self, filter: &LetterFilter, operator: Option<&Operator>) -> Result<Restored> {
        let mut after = i64::MIN;
        filter.in_batches(PAGE, |restored: &mut Restored, parameter, most| -> Taken {
            let page: Vec<(JobId, String, Option<i64>)> = self.db.ask_bulk().all(
                "restore archived letters",
                &sql::RESTORE_ARCHIVED,
                &[
                    parameter,
                    &after,
                    &most,
                    &operator.is_none(),
                    &operator,
                    &restored.audit,
                ],
            )?;
            let Some((last, _, audit)) = page.last() else {
                return Ok(None);
            };
            (after, restored.audit) = (last.get(), *audit);
            let letters = page.len();
            for (id, result, _) in page {
                match &*result {
                    "restored" => restored.letters.push(id),
                    why => {
                        // The database has acted, so a reason of a newer schema must not fail the call.
                        let why = why.parse().unwrap_or(NotRestored::IdTaken);
                        restored.left.push((id, why));
                    }
                }
            }
            let so_far = BatchProgress::of(restored.letters.len(), restored.audit);
            let so_far = so_far.and_unchanged(restored.left.len() as u64);
            let goes_on = operator.is_none() || self.db.go_on(so_far).is_continue();
            Ok(goes_on.then_some(letters as u64))
        })
    }
}
