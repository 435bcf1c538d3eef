//! `redrive dlq groups`: failure groups.

mod list;
mod show;
mod change;
mod rules;
mod merge;
mod split;

use redrive::dlq::GroupState;

use crate::prelude::*;

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

subcommands! {
    enum GroupsSubcommand {
        List(list::ListGroups),
        Show(show::ShowGroup),
        /// Mark groups as being worked on
        #[command(before_help = "Examples:\n  redrive dlq groups ack 12\n  redrive dlq groups ack class=Timeout --yes\n")]
        Ack(change::ChangeGroup).run(GroupState::Acknowledged),
        /// Mark groups as fixed; a new death is a regression
        #[command(before_help = "Example:\n  redrive dlq groups resolve 12 --reason 'fixed in 1.4.3'\n")]
        Resolve(change::ChangeGroup).run(GroupState::Resolved),
        /// Mark groups as known and harmless; a new death does not change that
        #[command(before_help = "Example:\n  redrive dlq groups ignore 12 --reason 'test data'\n")]
        Ignore(change::ChangeGroup).run(GroupState::Ignored),
        /// Mark groups as open again
        #[command(before_help = "Example:\n  redrive dlq groups reopen 12\n")]
        Reopen(change::ChangeGroup).run(GroupState::Open),
        Set(change::SetGroup),
        Merge(merge::MergeGroups),
        Split(split::SplitGroup),
        #[command(subcommand)]
        Rules(rules::GroupRules),
    }
}

impl GroupsCommand {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        match &self.subcommand {
            Some(subcommand) => subcommand.run(cx),
            None => self.list.run(cx),
        }
    }
}
