//! Applies the redactions to letters that exist already.

use crate::dlq::prelude::*;

/// The letters per statement.
const PAGE: u64 = 500;

impl Redactions<'_> {
    /// Counts the letters that [`apply`](Redactions::apply) would change. Changes nothing.
    ///
    /// # Errors
    /// *Invalid* with [`LetterFilter::after`]; otherwise if the database fails.
    pub fn preview(&self, filter: &LetterFilter) -> Result<u64> {
        Ok(self.each_page(filter, None)?.0)
    }

    /// Applies the redactions to existing letters, their earlier payloads and the texts of
    /// failure groups. Returns the number of changed letters.
    ///
    /// This cannot be undone. Redriving letters are left out and redacted when their job dies.
    /// The archive does not change. Each batch of 500 is one transaction with its audit row.
    ///
    /// # Errors
    /// *Invalid* with [`LetterFilter::after`]; otherwise if the database fails.
    pub fn apply(&self, filter: &LetterFilter, operator: &Operator) -> Result<u64> {
        let (changed, is_stopped) = self.each_page(filter, Some(operator))?;
        if !is_stopped {
            self.db
                .ask_bulk()
                .rows("redact failure groups", &sql::REDACT_GROUPS, &[])?;
        }
        Ok(changed)
    }

    /// Redacts letters page by page. Without an operator, it only counts them. Returns their number, and whether it was
    /// stopped.
    fn each_page(self, filter: &LetterFilter, operator: Option<&Operator>) -> Result<(u64, bool)> {
        let mut after = i64::MIN;
        let mut audit: Option<i64> = None;
        filter.in_batches(PAGE, |done: &mut (u64, bool), parameter, most| -> Taken {
            let page: Option<(i64, u64, Option<i64>)> = self.db.ask_bulk().first(
                "redact letters",
                &sql::REDACT_LETTERS,
                &[
                    parameter,
                    &after,
                    &most,
                    &operator.is_none(),
                    &operator,
                    &audit,
                ],
            )?;
            let Some((last, letters, first)) = page else {
                return Ok(None);
            };
            (after, audit) = (last, first);
            done.0 += letters;
            done.1 = operator.is_some() && self.db.go_on(done.0.into()).is_break();
            Ok((!done.1).then_some(most))
        })
    }
}
