//! `redrive dlq discard`: closes letters without redriving them.

use redrive::dlq::LetterState;

use super::state_change::StateChange;
use crate::batches::{Batches, Undo};
use crate::prelude::*;

/// Close open letters without redriving them
///
/// Without --yes this is a dry run; only that needs no --reason. Letters given by id are closed at
/// once, quarantined ones too. Discarded letters keep the reason, and stay in the database until they
/// are pruned. `redrive dlq reopen` opens them again.
#[derive(Args, Debug)]
#[command(
    before_help = "\
Examples:
  redrive dlq discard 42 --reason 'refunded by hand'
  redrive dlq discard orders kind=order.test --reason 'test orders' --yes
",
    after_help = "\
Ctrl-C stops after the current batch of 500 letters and prints how to undo what
was done. The exit code is 1 then, and if nothing matches."
)]
pub(super) struct Discard {
    #[command(flatten)]
    selection: Bulk,
}

impl Discard {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        self.selection.check_reason("discarding")?;
        let discard = StateChange {
            batches: Batches {
                noun: "letter",
                action: "discard",
                progressive: "discarding",
                participle: "discarded",
                undo: Undo::OfAudit(|audit| {
                    format!("undo: redrive dlq reopen audit={audit} --yes")
                }),
            },
            to_act: self.selection.to_act_with_reason(),
            takes: &[LetterState::Open, LetterState::Quarantined],
            change: |dlq, filter, operator, go_on| dlq.discard_while(filter, operator, go_on),
            quarantined: &|conditions| {
                let reason = self.selection.confirm.reason.text().unwrap_or("TEXT");
                let reason = quoted(reason);
                format!("redrive dlq discard {conditions} state=quarantined --reason {reason}")
            },
        };
        discard.run(&self.selection, cx)
    }
}
