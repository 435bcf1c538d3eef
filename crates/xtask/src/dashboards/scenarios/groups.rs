//! A letter that holds its group in the scenarios.

use anyhow::Result;

use super::super::context::Context;

impl Context<'_> {
    /// Lets a job of an ordered group die, with another one behind it.
    pub(super) fn hold_a_group(&mut self) -> Result<()> {
        self.redrive("queue groups set invoices ordered --on-death=hold --reason=x")?;
        let invoices = self.queue("invoices")?;
        for _ in 0..2 {
            // The payload of an earlier release cannot be decoded.
            let old = redrive::NewJob::raw("invoice.send", r#"{"total": "1 EUR"}"#)?;
            invoices.enqueue_job(old.group("customer:42"))?;
        }
        self.wait_for(1, "redrive.held_groups WHERE waiting = 1")
    }

    /// Releases the group.
    pub(super) fn release_the_group(&mut self) -> Result<()> {
        self.redrive("queue groups release invoices customer:42 --reason=x")
    }
}
