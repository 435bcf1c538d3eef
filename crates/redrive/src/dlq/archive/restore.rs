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
    /// The letters that stay in the archive, because another one has their id, or their source and position.
    pub left: Vec<JobId>,
    /// The audit record of the operation, by which [`LetterFilter::audit`] selects the
    /// restored letters; `None`: it restored none.
    pub audit: Option<i64>,
}

impl Dlq<'_> {
    /// Moves archived letters back into the table, with their ids, histories, versions and counts. They are open, or
    /// quarantined if they were. Each batch of 500 is one transaction with its audit row.
    ///
    /// # Errors
    /// *Invalid* with [`LetterFilter::after`]; otherwise if the database fails.
    pub fn restore(&self, filter: &LetterFilter, operator: &Operator) -> Result<Restored> {
        let mut after = i64::MIN;
        filter.in_batches(PAGE, |restored: &mut Restored, parameter, most| -> Taken {
            let page: Vec<(JobId, bool, Option<i64>)> = self.db.ask_bulk().all(
                "restore archived letters",
                &sql::RESTORE_ARCHIVED,
                &[parameter, &after, &most, operator, &restored.audit],
            )?;
            let Some((last, _, audit)) = page.last() else {
                return Ok(None);
            };
            (after, restored.audit) = (last.get(), *audit);
            for (id, is_restored, _) in &page {
                match is_restored {
                    true => restored.letters.push(*id),
                    false => restored.left.push(*id),
                }
            }
            let so_far = BatchProgress::of(restored.letters.len(), restored.audit);
            let so_far = so_far.and_unchanged(restored.left.len() as u64);
            Ok(then(self.db.go_on(so_far), page.len()))
        })
    }
}
