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
        self.each_page(filter, None)
    }

    /// Applies the redactions to existing letters, their earlier payloads and the texts of
    /// failure groups, which are those of its queue if the filter has one. Returns the number of changed letters.
    ///
    /// This cannot be undone. Redriving letters are left out and redacted when their job dies.
    /// The archive does not change. Each batch of 500 is one transaction with its audit row.
    ///
    /// # Errors
    /// *Invalid* with [`LetterFilter::after`]; otherwise if the database fails.
    pub fn apply(&self, filter: &LetterFilter, operator: &Operator) -> Result<u64> {
        let changed = self.each_page(filter, Some(operator))?;
        let ask = self.db.ask_bulk();
        ask.rows(
            "redact failure groups",
            &sql::REDACT_GROUPS,
            &[&filter.whole()?],
        )?;
        Ok(changed)
    }

    /// Redacts letters page by page. Without an operator, it only counts them. Returns their number.
    fn each_page(self, filter: &LetterFilter, operator: Option<&Operator>) -> Result<u64> {
        let mut audit: Option<i64> = None;
        let dlq = Dlq { db: self.db };
        let (letters, _) =
            dlq.in_pages(filter, PAGE, |done: &mut u64, parameter, page| -> Taken {
                let (letters, first): (u64, Option<i64>) = self.db.ask_bulk().one(
                    "redact letters",
                    &sql::REDACT_LETTERS,
                    &[&page, parameter, &operator.is_none(), &operator, &audit],
                )?;
                audit = first;
                *done += letters;
                let goes_on = operator.is_none() || self.db.go_on((*done).into()).is_continue();
                Ok(goes_on.then_some(page.len() as u64))
            })?;
        Ok(letters)
    }
}
