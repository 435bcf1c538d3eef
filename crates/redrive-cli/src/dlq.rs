//! `redrive dlq`: dead letters.

mod filter;
mod selection;
mod similar;
mod none_matched;
mod not_done;
mod left_out;
mod blocked;
mod letter_table;
mod stopped;
mod bulk;
mod state_change;
mod run_report;
mod patience;
mod run_progress;
mod follow;
mod validators;
mod group;
mod list;
mod ls;
mod groups;
mod show;
mod redrive;
mod discard;
mod reopen;
mod capture;
mod runs;
mod protection;
mod validate;
mod payload_edit;
mod edit_preview;
mod edit;
mod deliver;
mod export;
mod policies;
mod retention;
mod archive;
mod overview;

use clap::{Args, Subcommand};

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::profession::Profession;

pub(crate) use edit_preview::Preview;
pub(crate) use filter::{FilterArgs, conditions_help, is_condition, quoted};
pub(crate) use none_matched::{QUEUES, no_queue};
pub(crate) use payload_edit::PayloadEdit;
pub(crate) use retention::{rule_cells, rule_json};
pub(crate) use stopped::Stopped;

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

#[derive(Debug, Subcommand)]
enum DlqSubcommand {
    List(list::ListLetters),
    Ls(ls::Ls),
    Groups(groups::GroupsCommand),
    Show(show::ShowLetter),
    // Boxed, because it has many more options than the others.
    Redrive(Box<redrive::Redrive>),
    Discard(discard::Discard),
    Reopen(reopen::Reopen),
    Capture(capture::CaptureFailures),
    Runs(runs::RunsCommand),
    Protection(protection::ProtectionCommand),
    Validate(validate::Validate),
    Edit(edit::Edit),
    Deliver(deliver::Deliver),
    Export(export::ExportLetters),
    Policies(policies::PoliciesCommand),
    Retention(retention::RetentionCommand),
    Archive(archive::ArchiveCommand),
}

impl DlqCommand {
    /// The role that the command needs.
    pub(crate) fn profession(&self) -> Profession {
        let Some(subcommand) = &self.subcommand else {
            return Profession::Reader;
        };
        match subcommand {
            DlqSubcommand::List(_)
            | DlqSubcommand::Ls(_)
            | DlqSubcommand::Show(_)
            | DlqSubcommand::Validate(_)
            | DlqSubcommand::Export(_) => Profession::Reader,
            DlqSubcommand::Capture(_) => Profession::Capturer,
            DlqSubcommand::Groups(command) => command.profession(),
            DlqSubcommand::Runs(command) => command.profession(),
            DlqSubcommand::Protection(command) => command.profession(),
            DlqSubcommand::Policies(command) => command.profession(),
            DlqSubcommand::Retention(command) => command.profession(),
            DlqSubcommand::Archive(command) => command.profession(),
            DlqSubcommand::Redrive(_)
            | DlqSubcommand::Discard(_)
            | DlqSubcommand::Reopen(_)
            | DlqSubcommand::Edit(_)
            | DlqSubcommand::Deliver(_) => Profession::Operator,
        }
    }

    pub(crate) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let Some(subcommand) = &self.subcommand else {
            return overview::run(cx);
        };
        match subcommand {
            DlqSubcommand::List(command) => command.run(cx),
            DlqSubcommand::Ls(command) => command.run(cx),
            DlqSubcommand::Groups(command) => command.run(cx),
            DlqSubcommand::Show(command) => command.run(cx),
            DlqSubcommand::Redrive(command) => command.run(cx),
            DlqSubcommand::Discard(command) => command.run(cx),
            DlqSubcommand::Reopen(command) => command.run(cx),
            DlqSubcommand::Capture(command) => command.run(cx),
            DlqSubcommand::Runs(command) => command.run(cx),
            DlqSubcommand::Protection(command) => command.run(cx),
            DlqSubcommand::Validate(command) => command.run(cx),
            DlqSubcommand::Edit(command) => command.run(cx),
            DlqSubcommand::Deliver(command) => command.run(cx),
            DlqSubcommand::Export(command) => command.run(cx),
            DlqSubcommand::Policies(command) => command.run(cx),
            DlqSubcommand::Retention(command) => command.run(cx),
            DlqSubcommand::Archive(command) => command.run(cx),
        }
    }
}
