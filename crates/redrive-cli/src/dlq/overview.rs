//! `redrive dlq` without a subcommand: the on-call screen.
//!
//! It shows queue depths, the most frequent failures, the oldest letter, ready jobs without a worker,
//! active runs and open breakers, each with the command to type next, in 80 columns and without
//! colors.

mod activity;
mod unhandled;

use std::io::Write;
use std::time::{Duration, SystemTime};

use redrive::admin::{DurabilityWarning, QueueStats};
use redrive::dlq::{FailureGroup, GroupFilter, GroupState, LetterFilter};
use serde_json::{Value, json};

use super::filter::quoted;
use super::group::{failure, group_json, list_of, others, state};
use crate::context::{Context, Ending};
use crate::error::Result;
use crate::terminal::{
    Charset, Column, Style, Table, counted, cut, grouped, json_line, one_line, sparkline, width,
    wrap,
};
use crate::time::{ago, rfc3339, short};
use activity::{Activity, breakers, runs};
use unhandled::{Unhandled, unhandled, unhandled_kinds};

/// How many groups are shown.
const GROUPS: u64 = 5;
/// The width of the screen.
const WIDTH: usize = 80;

struct Screen {
    queues: Vec<QueueStats>,
    groups: Vec<FailureGroup>,
    has_more_groups: bool,
    halted_runs: Vec<Activity>,
    runs: Vec<Activity>,
    breakers: Vec<Activity>,
    durability_warnings: Vec<DurabilityWarning>,
}

/// Prints the on-call screen.
pub(super) fn run(cx: &mut Context<'_>) -> Result<Ending> {
    let db = cx.database()?;
    let filter = GroupFilter::new()
        .waiting()
        .states([
            GroupState::Open,
            GroupState::Acknowledged,
            GroupState::Resolved,
        ])
        .limit(GROUPS + 1);
    let mut groups = db.dlq().groups().list(&filter)?;
    let has_more_groups = groups.len() as u64 > GROUPS;
    groups.truncate(usize::try_from(GROUPS).unwrap_or(usize::MAX));
    // Regressions come first; otherwise the order of the database stays.
    groups.sort_by_key(|group| !group.is_regression());
    let (halted_runs, runs) = runs(&db)?;
    let screen = Screen {
        queues: db.admin().stats(None)?,
        groups,
        has_more_groups,
        halted_runs,
        runs,
        breakers: breakers(&db)?,
        // The screen is useful without the durability check, so its error is ignored.
        durability_warnings: db.admin().durability_warnings().unwrap_or_default(),
    };
    if cx.global.json {
        json_line(cx.out, &screen.json())?;
    } else {
        screen.write(cx.out, Style::of_stdout(), Charset::of_locale())?;
    }
    Ok(Ending::Done)
}

impl Screen {
    fn write(&self, out: &mut dyn Write, style: Style, charset: Charset) -> Result<()> {
        if self.queues.is_empty() {
            writeln!(out, "All queues are empty.")?;
            return Ok(());
        }
        self.depths().write(out)?;
        self.write_failures(out, style, charset)?;
        self.write_oldest(out, style)?;
        self.write_unhandled(out, style)?;
        write_activities("Redrive runs that halted", &self.halted_runs, out, style)?;
        write_activities("Redrive runs in progress", &self.runs, out, style)?;
        write_activities("Open breakers", &self.breakers, out, style)?;
        self.write_durability_warnings(out, style)
    }

    fn depths(&self) -> Table {
        let mut table = Table::new([
            Column::Text("QUEUE"),
            Column::Number("READY"),
            Column::Number("OLDEST"),
            Column::Number("DELAYED"),
            Column::Number("LEASED"),
            Column::Number("WORKERS"),
            Column::Number("LETTERS"),
            Column::Number("OLDEST"),
        ]);
        for queue in &self.queues {
            table.row([
                queue.queue.clone(),
                grouped(queue.ready),
                queue.oldest_ready.map_or_else(|| "-".to_owned(), short),
                grouped(queue.delayed),
                grouped(queue.leased),
                grouped(queue.workers),
                grouped(queue.open + queue.quarantined),
                queue.oldest_open.map_or_else(|| "-".to_owned(), ago),
            ]);
        }
        table
    }

    fn write_failures(&self, out: &mut dyn Write, style: Style, charset: Charset) -> Result<()> {
        if self.groups.is_empty() {
            match self
                .queues
                .iter()
                .map(|queue| queue.open + queue.quarantined)
                .sum()
            {
                0 => writeln!(out, "\nNo letters are waiting.")?,
                ignored => {
                    writeln!(
                        out,
                        "\nNo letters are waiting, except {} of ignored groups:",
                        counted(ignored, "letter")
                    )?;
                    writeln!(out, "        redrive dlq groups --state ignored")?;
                }
            }
            return Ok(());
        }
        writeln!(out, "\n{}", style.heading("Most frequent failures"))?;
        for group in &self.groups {
            write_group(group, out, style, charset)?;
        }
        if self.has_more_groups {
            writeln!(out, "  more:  redrive dlq groups")?;
        }
        Ok(())
    }

    fn write_oldest(&self, out: &mut dyn Write, style: Style) -> Result<()> {
        let Some((queue, died_at)) = self.oldest_letter() else {
            return Ok(());
        };
        writeln!(out, "\n{}", style.heading("Oldest letter"))?;
        let line = format!("died {} ago in {}", ago(died_at), one_line(&queue.queue));
        writeln!(out, "  {}", cut(&line, WIDTH - 2))?;
        let died = format!("died<={}", rfc3339(died_at + Duration::from_millis(1)));
        let filter = LetterFilter::new().queue(&queue.queue).to_string();
        writeln!(
            out,
            "        redrive dlq list {} {}",
            quoted(&filter),
            quoted(&died)
        )?;
        Ok(())
    }

    /// Writes which ready jobs no live worker takes.
    fn write_unhandled(&self, out: &mut dyn Write, style: Style) -> Result<()> {
        let found: Vec<Unhandled<'_>> = self.queues.iter().filter_map(unhandled).collect();
        if found.is_empty() {
            return Ok(());
        }
        writeln!(out, "\n{}", style.heading("Ready jobs without a worker"))?;
        for queue in found {
            writeln!(out, "  {}", cut(&one_line(&queue.to_string()), WIDTH - 2))?;
            writeln!(out, "        redrive stats {}", quoted(queue.queue))?;
        }
        Ok(())
    }

    fn oldest_letter(&self) -> Option<(&QueueStats, SystemTime)> {
        let died = self
            .queues
            .iter()
            .filter_map(|queue| Some((queue, queue.oldest_open?)));
        died.min_by_key(|(_, died_at)| *died_at)
    }

    fn write_durability_warnings(&self, out: &mut dyn Write, style: Style) -> Result<()> {
        if self.durability_warnings.is_empty() {
            return Ok(());
        }
        writeln!(out, "\n{}", style.heading("Data at risk in a crash"))?;
        for warning in &self.durability_warnings {
            let text = one_line(&warning.to_string());
            let mut indent = "  ";
            for line in wrap(&text, WIDTH - 8) {
                writeln!(out, "{indent}{line}")?;
                indent = "        ";
            }
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let queues: Vec<Value> = self
            .queues
            .iter()
            .map(|queue| {
                json!({
                    "queue": queue.queue,
                    "ready": queue.ready,
                    "oldest_ready_seconds": queue.oldest_ready.map(|age| age.as_secs_f64()),
                    "delayed": queue.delayed,
                    "leased": queue.leased,
                    "workers": queue.workers,
                    "open": queue.open,
                    "quarantined": queue.quarantined,
                    "unhandled_kinds": unhandled_kinds(queue).map(|kind| &kind.kind).collect::<Vec<_>>(),
                    "oldest_open_died_at": queue.oldest_open.map(rfc3339),
                })
            })
            .collect();
        let objects = |activities: &[Activity]| {
            let objects = activities.iter().map(|activity| activity.json.clone());
            objects.collect::<Vec<_>>()
        };
        let warnings = self.durability_warnings.iter().map(ToString::to_string);
        json!({
            "queues": queues,
            "groups": self.groups.iter().map(group_json).collect::<Vec<_>>(),
            "halted_runs": objects(&self.halted_runs),
            "runs": objects(&self.runs),
            "breakers": objects(&self.breakers),
            "durability_warnings": warnings.collect::<Vec<_>>(),
        })
    }
}

fn write_group(
    group: &FailureGroup,
    out: &mut dyn Write,
    style: Style,
    charset: Charset,
) -> Result<()> {
    let id = format!("  {:<6}", group.id.to_string());
    let failure = one_line(&format!(
        "{} {}  {}",
        group.queue,
        group.kind,
        failure(group)
    ));
    // The count stays when a long message is cut.
    let others = others(group);
    let room = WIDTH - width(&id) - width(&others);
    writeln!(out, "{id}{}{others}", cut(&failure, room))?;
    let waiting = grouped(group.open + group.quarantined);
    let letters = match group.quarantined {
        0 => format!("{waiting} waiting"),
        quarantined => format!("{waiting} waiting ({} quarantined)", grouped(quarantined)),
    };
    let word = state(group);
    let state = match group.is_regression() {
        true => style.error(word),
        false => word.to_owned(),
    };
    let owner = group
        .owner
        .as_ref()
        .map(|owner| format!(" ({})", cut(&one_line(owner), 20)));
    writeln!(
        out,
        "        {state}{}, {letters}, last {} ago",
        owner.unwrap_or_default(),
        ago(group.last_seen)
    )?;
    let line = sparkline(&group.hours, charset);
    let next = match group.is_regression() {
        true => format!("redrive dlq groups show {}", group.id),
        false => list_of(group),
    };
    let line = format!("        |{line}| 24 h    ");
    match width(&line) + width(&next) <= WIDTH {
        true => writeln!(out, "{line}{next}")?,
        false => writeln!(out, "{}\n        {next}", line.trim_end())?,
    }
    Ok(())
}

fn write_activities(
    heading: &str,
    activities: &[Activity],
    out: &mut dyn Write,
    style: Style,
) -> Result<()> {
    if activities.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", style.heading(heading))?;
    for activity in activities {
        writeln!(out, "  {}", cut(&one_line(&activity.line), WIDTH - 2))?;
        writeln!(out, "        {}", activity.next)?;
    }
    Ok(())
}
