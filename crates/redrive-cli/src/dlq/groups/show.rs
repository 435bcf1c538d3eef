//! `redrive dlq groups show`.

use redrive::dlq::{FailureGroup, GroupId, LetterFilter};

use crate::dlq::counts::counts;
use crate::dlq::group::{group_json, list_of, of_waiting, state, waiting};
use crate::letter::print_indented;
use crate::prelude::*;
use crate::terminal::{Style, sparkline};

/// Show a failure group, or count its waiting letters by a property
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive dlq groups show 12
  redrive dlq groups show 12 --by payload.tenant
  redrive dlq groups show 12 --by version
")]
pub(super) struct ShowGroup {
    /// The id of the group.
    group: GroupId,
    /// Count the open and quarantined letters by this property: payload.PATH, host, version, cause,
    /// state or source.
    #[arg(long, value_name = "PROPERTY")]
    by: Option<String>,
    /// With --by, at most this many values.
    #[arg(long, value_name = "N", requires = "by", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: Option<u32>,
}

/// How many values are shown by default.
const VALUES: u32 = 20;

impl ShowGroup {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let Some(group) = db.dlq().groups().get(self.group)? else {
            return not_found(self.group, cx);
        };
        if let Some(property) = &self.by {
            let letters = of_waiting(LetterFilter::new().group(self.group));
            let limit = self.limit.unwrap_or(VALUES).into();
            return match counts(&letters, property, limit, cx)? {
                Some(ending) => Ok(ending),
                None => cx.nothing(format!("no letter of group {} is waiting", self.group)),
            };
        }
        if cx.global.json {
            return cx.json(&group_json(&group, waiting(&group)));
        }
        let style = Style::of_stdout();
        let heading = format!("group {}: {}", group.id, state(&group));
        writeln!(cx.out, "{}\n", style.heading(&heading))?;
        details(&group).write(12, cx.out)?;
        let line = sparkline(&group.hours);
        writeln!(cx.out, "\n  last 24 h    |{line}|")?;
        let newest = Some(&group.newest).filter(|newest| **newest != group.title);
        for (name, text) in [("Newest message:", newest), ("Note:", group.note.as_ref())] {
            let Some(text) = text else { continue };
            writeln!(cx.out, "\n{}", style.heading(name))?;
            print_indented(cx.out, text)?;
        }
        writeln!(cx.out, "\n{}", style.heading("Next:"))?;
        cx.print_command(&list_of(&group))?;
        if waiting(&group) > 0 {
            cx.print_command(&format!("{Me} dlq groups show {} --by version", group.id))?;
        }
        if group.open > 0 {
            cx.print_command(&format!("{Me} dlq redrive group={}", group.id))?;
        }
        Ok(Ending::Done)
    }
}

/// Reports that a group does not exist.
pub(super) fn not_found(id: GroupId, cx: &mut Context<'_>) -> Result<Ending> {
    cx.nothing(format!("failure group {id} does not exist"))
}

fn details(group: &FailureGroup) -> Details {
    let letters = format!(
        "{} open, {} quarantined, {} redriving, {} recovered, {} discarded",
        grouped(group.open),
        grouped(group.quarantined),
        grouped(group.redriving),
        grouped(group.recovered),
        grouped(group.discarded)
    );
    let version = group.first_version.as_ref();
    let version = version.map(|version| format!(", in version {version}"));
    let (first, version) = (ago(group.first_seen), version.unwrap_or_default());
    let mut details = Details::default();
    details
        .add("queue", &group.queue)
        .add("kind", &group.kind)
        .add("class", &group.error_class)
        .add("message", &group.title)
        .add("letters", letters)
        .add("deaths", format!("{} in total", grouped(group.deaths)))
        .add("first seen", format!("{first} ago{version}"))
        .add("last seen", format!("{} ago", ago(group.last_seen)))
        .some("owner", group.owner.as_ref())
        .some(
            "resolved",
            group.resolved_at.map(|at| format!("{} ago", ago(at))),
        );
    details
}
