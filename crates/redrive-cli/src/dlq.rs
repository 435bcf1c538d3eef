//! `redrive dlq`: dead letters.

mod none_matched;
mod blocked;
mod letter_table;
mod state_change;
mod run_report;
mod follow;
mod validators;
mod group;
mod counts;
mod list;
mod groups;
mod show;
mod runs;
mod redrive;
mod capture;
mod protection;
mod validate;
mod payload_edit;
mod edit_preview;
mod edit;
mod deliver;
mod export;
mod retention;
mod archive;
mod overview;

use ::redrive::dlq::LetterFilter;

use crate::prelude::*;
use state_change::{DISCARD, MoveLetters, REOPEN};

pub(crate) use edit_preview::Preview;
pub(crate) use none_matched::{missing_queue, none_in};
pub(crate) use payload_edit::PayloadEdit;

/// Inspect dead letters, send them back, or discard them
///
/// Without a subcommand, this prints the on-call screen: queue depths, the most frequent failures,
/// the oldest letter, ready jobs without a worker, active runs and open breakers, each with the command
/// to type next.
#[derive(Args, Debug)]
#[command(
    before_help = "\
Examples:
  redrive dlq
  redrive dlq list orders class=Timeout 'age>2h'
",
    after_help = conditions_help()
)]
pub(crate) struct DlqCommand {
    #[command(subcommand)]
    subcommand: Option<DlqSubcommand>,
}

const AFTER_HELP: &str = "\
Ctrl-C stops after the current batch of 500 letters and prints how to undo what
was done. The exit code is 1 then, and if nothing matches.";

subcommands! {
    enum DlqSubcommand {
        List(list::ListLetters),
        Groups(groups::GroupsCommand),
        Show(show::ShowLetter),
        // Boxed, because it has many more options than the others.
        Redrive(Box<redrive::Redrive>),
        /// Close open and quarantined letters without redriving them
        ///
        /// Without --yes this is a dry run; only that needs no --reason. Letters given by id are closed at
        /// once. Discarded letters keep the reason, and stay in the database until they
        /// are pruned. `redrive dlq reopen` opens them again.
        #[command(
            before_help = "\
Examples:
  redrive dlq discard 42 --reason 'refunded by hand'
  redrive dlq discard orders kind=order.test --reason 'test orders' --yes
",
            after_help = AFTER_HELP
        )]
        Discard(MoveLetters).run(&DISCARD),
        /// Open discarded letters again
        ///
        /// Without --yes this is a dry run. Letters given by id are reopened at once. A letter keeps its
        /// history, and a letter that was quarantined is quarantined again; one that held its group holds it no longer. The condition audit=ID undoes
        /// one discard as a whole; `redrive audit --verb discard` prints the ids.
        #[command(
            before_help = "\
Examples:
  redrive dlq reopen audit=412 --yes
  redrive dlq reopen orders class=Timeout --reason 'the refund failed' --yes
  redrive dlq reopen 42
",
            after_help = AFTER_HELP
        )]
        Reopen(MoveLetters).run(&REOPEN),
        Capture(capture::CaptureFailures),
        #[command(subcommand)]
        Runs(runs::RunsCommand),
        #[command(subcommand)]
        Protection(protection::ProtectionCommand),
        Validate(validate::Validate),
        Edit(edit::Edit),
        Deliver(deliver::Deliver),
        Export(export::ExportLetters),
        #[command(subcommand)]
        Retention(retention::RetentionCommand),
        #[command(subcommand)]
        Archive(archive::ArchiveCommand),
    }
}

/// The conditions, for the help of every command that takes them.
pub(crate) fn conditions_help() -> String {
    format!(
        "\
Conditions on letters (a letter must meet all of them):
{}

Numbers and values of the payload also take != < <= > and >=, and texts in the
payload take ~ for a part. 'age>2h' died more than two hours ago, 'age<2h' less
than two hours ago. Ages are durations as in flags: 500ms, 90s, 1h30m, 1.5h, 7d.
A time without Z or an offset is UTC. Several values of a class, group, cause,
state or id are separated by commas. Pass each condition as one argument, in
single quotes if it contains spaces or <, > or \".",
        LetterFilter::help()
    )
}

impl DlqCommand {
    pub(crate) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        match &self.subcommand {
            Some(subcommand) => subcommand.run(cx),
            None => overview::run(cx),
        }
    }
}
