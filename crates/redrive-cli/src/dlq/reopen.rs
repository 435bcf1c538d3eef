//! `redrive dlq reopen`: opens discarded letters again.

use clap::{ArgGroup, Args};
use redrive::dlq::LetterState;

use super::bulk::{BulkAction, BulkSelection};
use super::none_matched::list_command;
use super::state_change::StateChange;
use crate::context::{Context, Ending};
use crate::error::Result;

/// Open discarded letters again
///
/// Without --yes this is a dry run. Letters given by --id are reopened at once. A letter keeps its
/// history, and a letter that was quarantined is quarantined again. The condition audit=ID undoes
/// one discard as a whole; `redrive audit --verb discard` prints the ids.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("which").required(true)),
    override_usage = "redrive dlq reopen <QUEUE | --id ID...> [CONDITION...] [OPTIONS]",
    before_help = "\
Examples:
  redrive dlq reopen audit=412 --yes
  redrive dlq reopen orders class=Timeout --reason 'the refund failed' --yes
  redrive dlq reopen --id 42
",
    after_help = "\
Ctrl-C stops after the current batch of 500 letters and prints how to undo what
was done. The exit code is 1 then, and if nothing matches."
)]
pub(super) struct Reopen {
    #[command(flatten)]
    selection: BulkSelection,
    /// The reason, for the letters and the audit log.
    #[arg(long, help_heading = "Action", value_name = "TEXT")]
    reason: Option<String>,
}

impl Reopen {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let reopen = StateChange {
            action: BulkAction {
                command: "reopen",
                participle: "reopened",
                progressive: "reopening",
                affects: |count| count.letters,
                reason: self.reason.as_deref(),
            },
            takes: &[LetterState::Discarded],
            change: |dlq, filter, operator, go_on| dlq.reopen_while(filter, operator, go_on),
            undo: |audit| {
                format!(
                    "redrive dlq discard audit={audit} state=open,quarantined --reason TEXT --yes"
                )
            },
            by_id: "reopen --id",
            quarantined: &|conditions| list_command(conditions, LetterState::Quarantined),
            check: &|_| Ok(()),
        };
        reopen.run(&self.selection, cx)
    }
}
