//! `redrive dlq groups show`.

use clap::Args;
use redrive::dlq::{FailureGroup, GroupId};

use crate::context::{Context, Ending};
use crate::dlq::group::{group_json, list_of, state};
use crate::error::Result;
use crate::terminal::{Charset, Style, clean, grouped, json_line, one_line, sparkline};
use crate::time::ago;

/// Show a failure group
#[derive(Args, Debug)]
#[command(before_help = "Example:\n  redrive dlq groups show 12\n")]
pub(super) struct ShowGroup {
    /// The id of the group.
    group: GroupId,
}

impl ShowGroup {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let Some(group) = cx.database()?.dlq().groups().get(self.group)? else {
            return Ok(not_found(self.group, cx));
        };
        if cx.global.json {
            json_line(cx.out, &group_json(&group))?;
            return Ok(Ending::Done);
        }
        let style = Style::of_stdout();
        let heading = format!("group {}: {}", group.id, state(&group));
        writeln!(cx.out, "{}\n", style.heading(&heading))?;
        for (name, value) in details(&group) {
            writeln!(cx.out, "  {name:<12} {}", one_line(&value))?;
        }
        let line = sparkline(&group.hours, Charset::of_locale());
        writeln!(cx.out, "\n  last 24 h    |{line}|")?;
        writeln!(cx.out, "\n{}", style.heading("First message:"))?;
        indented(&group.sample, cx)?;
        if group.newest != group.sample {
            writeln!(cx.out, "\n{}", style.heading("Newest message:"))?;
            indented(&group.newest, cx)?;
        }
        if let Some(note) = &group.note {
            writeln!(cx.out, "\n{}", style.heading("Note:"))?;
            indented(note, cx)?;
        }
        writeln!(cx.out, "\nLetters:\n  {}", list_of(&group))?;
        Ok(Ending::Done)
    }
}

/// Reports that a group does not exist.
pub(super) fn not_found(id: GroupId, cx: &mut Context<'_>) -> Ending {
    cx.say(format!("failure group {id} does not exist"));
    Ending::NothingMatched
}

fn indented(text: &str, cx: &mut Context<'_>) -> Result<()> {
    for line in clean(text).lines() {
        writeln!(cx.out, "  {line}")?;
    }
    Ok(())
}

fn details(group: &FailureGroup) -> Vec<(&'static str, String)> {
    let mut details = vec![
        ("queue", group.queue.clone()),
        ("kind", group.kind.clone()),
        ("class", group.error_class.clone()),
        ("message", group.title.clone()),
        (
            "letters",
            format!(
                "{} open, {} quarantined, {} redriving, {} recovered, {} discarded",
                grouped(group.open),
                grouped(group.quarantined),
                grouped(group.redriving),
                grouped(group.recovered),
                grouped(group.discarded)
            ),
        ),
        ("deaths", format!("{} in total", grouped(group.deaths))),
    ];
    let version = group.first_version.as_ref();
    let version = version.map(|version| format!(", in version {version}"));
    details.push((
        "first seen",
        format!(
            "{} ago{}",
            ago(group.first_seen),
            version.unwrap_or_default()
        ),
    ));
    details.push(("last seen", format!("{} ago", ago(group.last_seen))));
    if let Some(owner) = &group.owner {
        details.push(("owner", owner.clone()));
    }
    if let Some(resolved) = group.resolved_at {
        details.push(("resolved", format!("{} ago", ago(resolved))));
    }
    if let Some(regressed) = group.regressed_at {
        details.push((
            "regressed",
            format!(
                "{} ago, {} times in total",
                ago(regressed),
                group.regressions
            ),
        ));
    }
    details
}
