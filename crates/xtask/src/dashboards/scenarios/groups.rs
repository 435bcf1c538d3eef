//! A letter that holds its group in the scenarios.

use anyhow::{Context as _, Result};

use super::super::context::Context;

impl Context<'_> {
    /// Lets a job of an ordered group die, with another one behind it.
    pub(super) fn hold_a_group(&mut self) -> Result<()> {
        let policy = ["queue", "groups", "set", "invoices", "ordered"];
        self.redrive(&[&policy[..], &["--on-death=hold", "--reason=x"]].concat())?;
        let invoices = self.queue("invoices")?;
        for number in 1..=2 {
            // The payload of an earlier release cannot be decoded.
            let old = redrive::NewJob::raw("invoice.send", r#"{"total": "1 EUR"}"#)
                .with_context(|| format!("cannot make invoice {number} of a group"))?;
            invoices
                .enqueue_job(old.group("customer:42"))
                .with_context(|| format!("cannot enqueue invoice {number} of a group"))?;
        }
        self.wait_for(
            "a letter to hold its group",
            "SELECT count(*) > 0 FROM redrive.held_groups WHERE waiting = 1",
        )
    }

    /// Releases the group.
    pub(super) fn release_the_group(&mut self) -> Result<()> {
        let release = ["queue", "groups", "release", "invoices", "customer:42"];
        self.redrive(&[&release[..], &["--reason=x"]].concat())
    }
}
