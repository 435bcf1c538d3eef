//! `redrive dlq groups`: failure groups.

mod matching;
mod table;
mod list;
mod show;
mod change;
mod rules;
mod merge;
mod split;

use clap::{Args, Subcommand};
use redrive::dlq::GroupState;

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::profession::Profession;

/// List failure groups, set their state, owner and note, merge and split them
///
/// A failure group collects the letters of one queue and kind with the same error class, message and
/// top stack frame. Ids, numbers, addresses, paths, times and quoted data make no difference; status
/// codes, error codes and quoted identifiers do. A handler can set a key instead. Without a
/// subcommand, this lists the groups.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct GroupsCommand {
    #[command(subcommand)]
    subcommand: Option<GroupsSubcommand>,
    #[command(flatten)]
    list: list::ListGroups,
}

#[derive(Debug, Subcommand)]
enum GroupsSubcommand {
    List(list::ListGroups),
    Show(show::ShowGroup),
    /// Mark groups as being worked on
    #[command(
        before_help = "Examples:\n  redrive dlq groups ack 12\n  redrive dlq groups ack class=Timeout --yes\n"
    )]
    Ack(change::ChangeGroup),
    /// Mark groups as fixed; a new death is a regression
    #[command(
        before_help = "Example:\n  redrive dlq groups resolve 12 --reason 'fixed in 1.4.3'\n"
    )]
    Resolve(change::ChangeGroup),
    /// Mark groups as known and harmless; a new death does not change that
    #[command(before_help = "Example:\n  redrive dlq groups ignore 12 --reason 'test data'\n")]
    Ignore(change::ChangeGroup),
    /// Mark groups as open again
    #[command(before_help = "Example:\n  redrive dlq groups reopen 12\n")]
    Reopen(change::ChangeGroup),
    Note(change::NoteGroup),
    Own(change::AssignGroup),
    Merge(merge::MergeGroups),
    Split(split::SplitGroup),
    Rules(rules::GroupRules),
}

impl GroupsCommand {
    /// The role that the command needs.
    pub(super) fn profession(&self) -> Profession {
        let Some(subcommand) = &self.subcommand else {
            return Profession::Reader;
        };
        match subcommand {
            GroupsSubcommand::List(_) | GroupsSubcommand::Show(_) => Profession::Reader,
            GroupsSubcommand::Rules(command) => command.profession(),
            GroupsSubcommand::Ack(_)
            | GroupsSubcommand::Resolve(_)
            | GroupsSubcommand::Ignore(_)
            | GroupsSubcommand::Reopen(_)
            | GroupsSubcommand::Note(_)
            | GroupsSubcommand::Own(_)
            | GroupsSubcommand::Merge(_)
            | GroupsSubcommand::Split(_) => Profession::Operator,
        }
    }

    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let Some(subcommand) = &self.subcommand else {
            return self.list.run(cx);
        };
        match subcommand {
            GroupsSubcommand::List(command) => command.run(cx),
            GroupsSubcommand::Show(command) => command.run(cx),
            GroupsSubcommand::Ack(command) => command.run(GroupState::Acknowledged, cx),
            GroupsSubcommand::Resolve(command) => command.run(GroupState::Resolved, cx),
            GroupsSubcommand::Ignore(command) => command.run(GroupState::Ignored, cx),
            GroupsSubcommand::Reopen(command) => command.run(GroupState::Open, cx),
            GroupsSubcommand::Note(command) => command.run(cx),
            GroupsSubcommand::Own(command) => command.run(cx),
            GroupsSubcommand::Merge(command) => command.run(cx),
            GroupsSubcommand::Split(command) => command.run(cx),
            GroupsSubcommand::Rules(command) => command.run(cx),
        }
    }
}
