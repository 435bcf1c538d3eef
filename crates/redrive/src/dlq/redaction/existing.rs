//! Applies the redactions to letters that exist already.

use std::ops::ControlFlow;

use crate::dlq::prelude::*;

/// The letters per statement.
const PAGE: u64 = 500;

impl Redactions<'_> {
    /// Counts the letters that [`apply`](Redactions::apply) would change. Changes nothing.
    ///
    /// # Errors
    /// *Invalid* with [`LetterFilter::after`]; otherwise if the database fails.
    pub fn preview(&self, filter: &LetterFilter) -> Result<u64> {
        self.each_page(filter, None, |_| ControlFlow::Continue(()))
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
        self.apply_while(filter, operator, |_| ControlFlow::Continue(()))
    }

    /// Applies the redactions as [`apply`](Redactions::apply) does, calls `go_on` after each batch
    /// with the number of letters changed so far, and stops when it breaks.
    ///
    /// # Errors
    /// Those of [`apply`](Redactions::apply).
    pub fn apply_while(
        &self,
        filter: &LetterFilter,
        operator: &Operator,
        mut go_on: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<u64> {
        let mut course = ControlFlow::Continue(());
        let changed = self.each_page(filter, Some(operator), |changed| {
            course = go_on(changed);
            course
        })?;
        if course.is_continue() {
            self.db
                .ask_bulk()
                .rows("redact failure groups", &sql::REDACT_GROUPS, &[])?;
        }
        Ok(changed)
    }

    /// Redacts letters page by page. Without an operator, it only counts them.
    fn each_page(
        self,
        filter: &LetterFilter,
        operator: Option<&Operator>,
        mut go_on: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<u64> {
        let mut after = i64::MIN;
        let mut audit: Option<i64> = None;
        filter.in_batches(PAGE, |changed: &mut u64, parameter, most| -> Taken {
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
            *changed += letters;
            Ok(go_on(*changed).is_continue().then_some(most))
        })
    }
}
