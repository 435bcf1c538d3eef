//! Discards letters, reopens discarded ones, and deletes closed ones.

use std::time::Duration;

use crate::db::database::BatchProgress;
use crate::dlq::prelude::*;

/// The letters per statement of a discard or a reopening.
const BATCH: u64 = 500;
/// The letters per prune statement.
const PRUNE_BATCH: i64 = 2000;

/// The letters or the [waiting jobs](crate::admin::Jobs::change) that an operation has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changed {
    /// The letters or the jobs.
    pub ids: Vec<JobId>,
    /// The audit record of the operation, by which [`LetterFilter::audit`] selects these letters, or those of cancelled
    /// jobs; `None`: it changed none.
    pub audit: Option<i64>,
}

impl Dlq<'_> {
    /// Closes open letters and records the reason. They stay in the table until retention
    /// or a prune deletes them, and [`reopen`](Dlq::reopen) opens them again.
    ///
    /// Letters that another operation has locked, or a consumer claimed, stay as they are. Each batch of 500 is one
    /// transaction with its audit row.
    ///
    /// # Errors
    /// *Invalid* without a reason; otherwise if the database fails.
    pub fn discard(&self, filter: &LetterFilter, operator: &Operator) -> Result<Changed> {
        self.move_letters("discard letters", false, filter, operator)
    }

    /// Opens discarded letters again. They keep their history. A letter that was quarantined
    /// is quarantined again.
    ///
    /// Locked letters and batches are as in [`discard`](Dlq::discard).
    ///
    /// # Errors
    /// If the database fails.
    pub fn reopen(&self, filter: &LetterFilter, operator: &Operator) -> Result<Changed> {
        self.move_letters("reopen letters", true, filter, operator)
    }

    /// Moves letters in batches, which share the audit record of the first one.
    fn move_letters(
        self,
        doing: &str,
        undo: bool,
        filter: &LetterFilter,
        operator: &Operator,
    ) -> Result<Changed> {
        filter.in_batches(BATCH, |changed: &mut Changed, parameter, most| -> Taken {
            let moved: Vec<(JobId, i64)> = self.db.ask_bulk().all(
                doing,
                &sql::DISCARD_LETTERS,
                &[parameter, &most, operator, &changed.audit, &undo],
            )?;
            let Some((_, audit)) = moved.first() else {
                return Ok(None);
            };
            changed.audit = Some(*audit);
            changed.ids.extend(moved.iter().map(|(id, _)| id));
            let so_far = BatchProgress::of(changed.ids.len(), changed.audit);
            Ok(then(self.db.go_on(so_far), moved.len()))
        })
    }

    /// Counts the letters that [`prune`](Dlq::prune) would delete. Changes nothing.
    ///
    /// # Errors
    /// If the database fails.
    pub fn count_prunable(&self, older_than: Duration) -> Result<u64> {
        let (ask, doing) = (self.db.ask_bulk(), "count letters to prune");
        ask.one(doing, &sql::COUNT_PRUNABLE, &[&older_than])
    }

    /// Deletes letters that were recovered or discarded more than `older_than` ago, in batches of 2,000, whatever the
    /// [retention rules](crate::dlq::RetentionRule) say. Returns their number.
    ///
    /// # Errors
    /// If the database fails.
    pub fn prune(&self, older_than: Duration, operator: &Operator) -> Result<u64> {
        self.db.ask_bulk().until_none(
            "prune letters",
            &sql::PRUNE_LETTERS,
            &[&older_than, &PRUNE_BATCH, operator],
        )
    }
}
