//! `redrive dlq reopen`: opens discarded letters again.

use redrive::dlq::LetterState;

use super::none_matched::list_command;
use super::state_change::StateChange;
use crate::batches::{Batches, Undo};
use crate::prelude::*;

/// Open discarded letters again
///
/// Without --yes this is a dry run. Letters given by id are reopened at once. A letter keeps its
/// history, and a letter that was quarantined is quarantined again; one that held its group holds it no longer. The condition audit=ID undoes
/// one discard as a whole; `redrive audit --verb discard` prints the ids.
#[derive(Args, Debug)]
#[command(
    before_help = "\
Examples:
  redrive dlq reopen audit=412 --yes
  redrive dlq reopen orders class=Timeout --reason 'the refund failed' --yes
  redrive dlq reopen 42
",
    after_help = "\
Ctrl-C stops after the current batch of 500 letters and prints how to undo what
was done. The exit code is 1 then, and if nothing matches."
)]
pub(super) struct Reopen {
    #[command(flatten)]
    selection: Bulk,
}

impl Reopen {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let reopen = StateChange {
            batches: Batches {
                noun: "letter",
                action: "reopen",
                progressive: "reopening",
                participle: "reopened",
                undo: Undo::OfAudit(|audit| {
                    format!(
                        "undo: redrive dlq discard audit={audit} state=open,quarantined --reason TEXT --yes"
                    )
                }),
            },
            to_act: self.selection.to_act(),
            takes: &[LetterState::Discarded],
            change: |dlq, filter, operator, go_on| dlq.reopen_while(filter, operator, go_on),
            quarantined: &|conditions| list_command(conditions, LetterState::Quarantined),
        };
        reopen.run(&self.selection, cx)
    }
}
