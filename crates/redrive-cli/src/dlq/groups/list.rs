//! `redrive dlq groups list`.

use clap::Args;
use redrive::dlq::{FailureGroup, GroupFilter, GroupState};

use crate::context::{Context, Ending};
use crate::dlq::group::{failure, group_json, state};
use crate::error::Result;
use crate::terminal::{Charset, Column, Table, grouped, json_line, sparkline};
use crate::time::ago;

/// List failure groups, most waiting letters first
#[derive(Args, Debug)]
#[group(skip)]
#[command(before_help = "\
Examples:
  redrive dlq groups
  redrive dlq groups list orders --state open,acknowledged
  redrive dlq groups list --all --json | jq .title
")]
pub(super) struct ListGroups {
    /// Only groups of this queue.
    queue: Option<String>,
    /// Only groups of this kind.
    #[arg(long)]
    kind: Option<String>,
    /// Only groups with this error class.
    #[arg(long)]
    class: Option<String>,
    /// Only groups in these states: open, acknowledged, resolved, ignored.
    #[arg(long, value_delimiter = ',')]
    state: Vec<GroupState>,
    /// Also groups without waiting letters.
    #[arg(long)]
    all: bool,
    /// At most this many groups.
    #[arg(long, value_name = "N", default_value_t = 20, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
}

impl ListGroups {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let mut filter = GroupFilter::new().limit(self.limit);
        if let Some(queue) = &self.queue {
            filter = filter.queue(queue);
        }
        if let Some(kind) = &self.kind {
            filter = filter.kind(kind);
        }
        if let Some(class) = &self.class {
            filter = filter.error_class(class);
        }
        if !self.state.is_empty() {
            filter = filter.states(self.state.iter().copied());
        }
        if !self.all {
            filter = filter.waiting();
        }
        let groups = cx.database()?.dlq().groups().list(&filter)?;
        if groups.is_empty() {
            cx.say("no failure group matches");
            return Ok(Ending::NothingMatched);
        }
        if cx.global.json {
            for group in &groups {
                json_line(cx.out, &group_json(group))?;
            }
        } else {
            table(&groups, Charset::of_locale()).write(cx.out)?;
        }
        Ok(Ending::Done)
    }
}

fn table(groups: &[FailureGroup], charset: Charset) -> Table {
    let mut table = Table::new([
        Column::Number("GROUP"),
        Column::Text("QUEUE"),
        Column::Text("STATE"),
        Column::Number("OPEN"),
        Column::Number("LAST"),
        Column::Text("LAST 24 HOURS"),
        Column::Text("FAILURE"),
    ]);
    // A table joins spaces, so an hour without a death needs a visible character.
    let empty_hour = match charset {
        Charset::Unicode => "\u{b7}",
        Charset::Ascii => "_",
    };
    for group in groups {
        table.row([
            group.id.to_string(),
            group.queue.clone(),
            state(group).to_owned(),
            grouped(group.open + group.quarantined),
            ago(group.last_seen),
            sparkline(&group.hours, charset).replace(' ', empty_hour),
            failure(group),
        ]);
    }
    table
}
