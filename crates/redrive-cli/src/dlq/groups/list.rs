//! `redrive dlq groups list`.

use redrive::dlq::{GroupFilter, GroupState};

use crate::dlq::group::{MAX_GROUPS, group_json, group_table, matching, of_waiting, waiting};
use crate::dlq::none_in;
use crate::prelude::*;

/// List failure groups, most waiting letters first
///
/// With conditions, this lists the groups of the letters that meet them, and counts these letters:
/// what failed in the last day, and why.
#[derive(Args, Debug)]
#[group(skip)]
#[command(before_help = "\
Examples:
  redrive dlq groups
  redrive dlq groups orders 'age<24h'
  redrive dlq groups list orders --state open,acknowledged
  redrive dlq groups list --all --json | jq .title
")]
pub(super) struct ListGroups {
    #[command(flatten)]
    words: Words,
    /// Only groups in these states: open, acknowledged, resolved, ignored.
    #[arg(long, help_heading = "Selection", value_delimiter = ',')]
    state: Vec<GroupState>,
    /// Also groups without waiting letters; with conditions, also letters that no longer wait.
    #[arg(long, help_heading = "Selection")]
    all: bool,
    /// At most this many groups.
    #[arg(long, help_heading = "Selection", value_name = "N", default_value_t = 20, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
}

impl ListGroups {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let states = (!self.state.is_empty()).then(|| self.state.iter().copied());
        let filter = GroupFilter::new().limit(self.limit + 1);
        let filter = filter.with(states, GroupFilter::states);
        let mut groups: Vec<_> = if self.words.is_queue() {
            let filter = filter
                .with(self.words.queue(), GroupFilter::queue)
                .with_flag(!self.all, GroupFilter::waiting);
            let groups = db.dlq().groups().list(&filter)?.into_iter();
            groups.map(|group| (waiting(&group), group)).collect()
        } else {
            let letters = self.words.letters()?;
            matching(&letters.with_flag(!self.all, of_waiting), filter, &db)?
        };
        let more = More::than(self.limit, MAX_GROUPS, "groups", &mut groups);
        if groups.is_empty() {
            return none_in(self.words.queue(), "no failure group matches", cx);
        }
        let table = group_table(&groups);
        cx.list_some(
            &more,
            "",
            &groups,
            |(letters, group)| group_json(group, *letters),
            &table,
        )
    }
}
