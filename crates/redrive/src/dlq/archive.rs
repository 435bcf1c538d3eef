//! The archive: letters that retention moved out of the table.

mod restore;

use crate::dlq::letter::Letter;
use crate::dlq::prelude::*;

pub use restore::Restored;

/// The letters per statement of a deletion.
const BATCH: u64 = 2000;

impl Dlq<'_> {
    /// Returns archived letters that match, as they were then, in the order of ids. The limit defaults to 50;
    /// [`LetterFilter::after`] selects the next page.
    ///
    /// # Errors
    /// If the database fails.
    pub fn archived(&self, filter: &LetterFilter) -> Result<Vec<Letter>> {
        self.list(&filter.archived())
    }

    /// Calls `visit` with every archived letter that matches, as [`for_each`](Dlq::for_each) does.
    ///
    /// # Errors
    /// As [`for_each`](Dlq::for_each).
    pub fn for_each_archived<E: From<Error>>(
        &self,
        filter: &LetterFilter,
        visit: impl FnMut(&Letter) -> Result<(), E>,
    ) -> Result<u64, E> {
        self.for_each(&filter.archived(), visit)
    }

    /// Returns one archived letter.
    ///
    /// # Errors
    /// If the database fails.
    pub fn archived_letter(&self, id: JobId) -> Result<Option<Letter>> {
        Ok(self.archived(&LetterFilter::new().ids([id]))?.pop())
    }

    /// Counts archived letters that match, ignoring the limit.
    ///
    /// # Errors
    /// *Invalid* with [`LetterFilter::after`]; otherwise if the database fails.
    pub fn count_archived(&self, filter: &LetterFilter) -> Result<u64> {
        self.count(&filter.archived())
    }

    /// Deletes archived letters for good. Returns their number. Each batch of 2,000 is one transaction with its audit row.
    ///
    /// # Errors
    /// *Invalid* with [`LetterFilter::after`]; otherwise if the database fails.
    pub fn delete_archived(&self, filter: &LetterFilter, operator: &Operator) -> Result<u64> {
        let mut audit: Option<i64> = None;
        filter.in_batches(BATCH, |deleted: &mut u64, parameter, most| -> Taken {
            let (letters, first): (u64, Option<i64>) = self.db.ask_bulk().one(
                "delete archived letters",
                &sql::DELETE_ARCHIVED,
                &[parameter, &most, operator, &audit],
            )?;
            audit = first;
            *deleted += letters;
            let goes_on = letters > 0 && self.db.go_on((*deleted).into()).is_continue();
            Ok(goes_on.then_some(letters))
        })
    }
}
