//! `redrive dlq groups show`.

use clap::Args;
use redrive::Database;
use redrive::dlq::{FailureGroup, GroupId, LetterFilter, LetterProperty, LetterState};

use crate::context::{Context, Ending};
use crate::dlq::counts::counts;
use crate::dlq::group::{group_json, list_of, state, waiting};
use crate::error::Result;
use crate::terminal::{
    Charset, Style, Window, clean, command_lines, grouped, json_line, one_line, sparkline,
    write_labelled,
};
use crate::time::ago;

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
    by: Option<LetterProperty>,
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
            return self.count_by(property, &db, cx);
        }
        if cx.global.json {
            json_line(cx.out, &group_json(&group, waiting(&group)))?;
            return Ok(Ending::Done);
        }
        let style = Style::of_stdout();
        let heading = format!("group {}: {}", group.id, state(&group));
        writeln!(cx.out, "{}\n", style.heading(&heading))?;
        for (name, value) in details(&group) {
            write_labelled(cx.out, &format!("  {name:<12} "), &one_line(&value))?;
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
        writeln!(cx.out, "\n{}", style.heading("Next:"))?;
        for command in next(&group) {
            let lines = command_lines("  ", &command, Window::of_stdout().columns());
            writeln!(cx.out, "{lines}")?;
        }
        Ok(Ending::Done)
    }

    /// Counts the waiting letters of the group by a property.
    fn count_by(
        &self,
        property: &LetterProperty,
        db: &Database,
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        let letters = LetterFilter::new()
            .group(self.group)
            .states([LetterState::Open, LetterState::Quarantined]);
        let limit = self.limit.unwrap_or(VALUES).into();
        let list = format!("redrive dlq list group={}", self.group);
        match counts(&letters, property, limit, &list, db, cx)? {
            Some(ending) => Ok(ending),
            None => cx.nothing(format!("no letter of group {} is waiting", self.group)),
        }
    }
}

/// The commands to type next.
fn next(group: &FailureGroup) -> Vec<String> {
    let mut commands = vec![list_of(group)];
    if waiting(group) > 0 {
        commands.push(format!("redrive dlq groups show {} --by version", group.id));
    }
    if group.open > 0 {
        commands.push(format!("redrive dlq redrive group={}", group.id));
    }
    commands
}

/// Reports that a group does not exist.
pub(super) fn not_found(id: GroupId, cx: &mut Context<'_>) -> Result<Ending> {
    cx.nothing(format!("failure group {id} does not exist"))
}

fn indented(text: &str, cx: &mut Context<'_>) -> Result<()> {
    for line in clean(text).lines() {
        write_labelled(cx.out, "  ", line)?;
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
