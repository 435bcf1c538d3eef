//! `redrive dlq discard`: closes letters without redriving them.

use clap::{ArgGroup, Args};
use redrive::dlq::LetterState;

use super::bulk::{BulkAction, BulkSelection};
use super::filter::quoted;
use super::state_change::StateChange;
use crate::context::{Context, Ending};
use crate::error::Result;

/// Close open letters without redriving them
///
/// Without --yes this is a dry run. Letters given by --id are closed at once, quarantined ones too.
/// Discarded letters keep the reason, and stay in the database until they are pruned. `redrive dlq
/// reopen` opens them again.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("which").required(true)),
    override_usage = "redrive dlq discard <QUEUE | --id ID...> [CONDITION...] [--reason <TEXT>] [OPTIONS]",
    before_help = "\
Examples:
  redrive dlq discard --id 42 --reason 'refunded by hand'
  redrive dlq discard orders --kind order.test --reason 'test orders' --yes
",
    after_help = "\
Ctrl-C stops after the current batch of 500 letters and prints how to undo what
was done. The exit code is 1 then, and if nothing matches."
)]
pub(super) struct Discard {
    #[command(flatten)]
    selection: BulkSelection,
    /// The reason, for the letters and the audit log. Only a dry run needs none.
    #[arg(long, help_heading = "Action", value_name = "TEXT")]
    reason: Option<String>,
}

impl Discard {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let reason = self.reason.as_deref().unwrap_or("TEXT");
        let discard = StateChange {
            action: BulkAction {
                command: "discard",
                participle: "discarded",
                progressive: "discarding",
                affects: |count| count.letters,
                reason: Some(reason),
            },
            takes: &[LetterState::Open, LetterState::Quarantined],
            change: |dlq, filter, operator, go_on| dlq.discard_while(filter, operator, go_on),
            undo: |audit| format!("redrive dlq reopen audit={audit} --yes"),
            by_id: "discard --reason TEXT --id",
            quarantined: &|conditions| {
                let reason = quoted(reason);
                format!("redrive dlq discard {conditions} state=quarantined --reason {reason}")
            },
            check: &|selection| selection.check_reason("discarding", self.reason.as_deref()),
        };
        discard.run(&self.selection, cx)
    }
}
