//! `redrive dlq` without a subcommand: the on-call screen.
//!
//! It shows queue depths, the most frequent failures, the oldest letter, ready jobs without a worker, held
//! groups, active runs, paused queues and open breakers, each with the command to type next. It is as wide
//! as the window.

mod activity;
mod failures;

use std::io::Write;

use redrive::admin::QueueStats;
use redrive::dlq::{FailureGroup, GroupFilter, GroupState};
use serde_json::Value;

use super::group::failure;
use crate::prelude::*;
use crate::terminal::{SCREEN, Style, columns_of_stdout, cut, sparkline, width, wrapped};
use activity::{Activity, breakers, held_groups, oldest_letter, pauses, runs, unhandled};
use failures::{Failure, failures};

/// How many failures are shown, and how many entries of each other part that a command lists.
const SHOWN: usize = 5;
/// The most groups of which failures are made.
const GROUPS: u64 = 1000;
/// The indentation of details and commands.
const INDENT: &str = "        ";

/// The style and the width of the screen.
#[derive(Clone, Copy)]
struct Layout {
    style: Style,
    /// The width of the window.
    columns: usize,
}

struct Screen {
    queues: Vec<QueueStats>,
    groups: Vec<FailureGroup>,
    /// The other parts: their headings, the command that lists their entries, also as JSON, and what they show.
    /// Without a command, all is shown.
    sections: Vec<(&'static str, &'static str, Vec<Activity>)>,
    durability_warnings: Vec<String>,
}

/// Prints the on-call screen.
pub(super) fn run(cx: &mut Context<'_>) -> Result<Ending> {
    let db = &cx.database()?;
    let filter = GroupFilter::new()
        .waiting()
        .states([
            GroupState::Open,
            GroupState::Acknowledged,
            GroupState::Resolved,
        ])
        .limit(GROUPS);
    let (halted_runs, runs) = runs(db)?;
    let queues = db.admin().stats(None)?;
    let screen = Screen {
        groups: db.dlq().groups().list(&filter)?,
        sections: vec![
            ("Oldest letter", "", oldest_letter(&queues)),
            (
                "Ready jobs without a worker",
                "stats",
                queues.iter().filter_map(unhandled).collect(),
            ),
            ("Held groups", "", held_groups(db)?),
            ("Redrive runs that halted", "", halted_runs),
            ("Redrive runs in progress", "dlq runs list", runs),
            ("Paused queues", "stats", pauses(&queues)),
            ("Open breakers", "breaker list", breakers(db)?),
        ],
        queues,
        // The screen is useful without the durability check, so its error is ignored.
        durability_warnings: db.admin().durability_warnings().unwrap_or_default(),
    };
    if cx.global.json {
        return cx.json(&screen.json());
    }
    let layout = Layout {
        style: Style::of_stdout(),
        columns: columns_of_stdout().unwrap_or(SCREEN),
    };
    screen.write(cx.out, layout)?;
    Ok(Ending::Done)
}

impl Screen {
    fn write(&self, out: &mut dyn Write, layout: Layout) -> Result<()> {
        if self.queues.is_empty() {
            writeln!(out, "All queues are empty.")?;
        } else {
            self.depths().write_in(Some(layout.columns), out)?;
            self.write_failures(out, layout)?;
        }
        for (heading, list, activities) in &self.sections {
            if !activities.is_empty() {
                layout.heading(heading, out)?;
            }
            let shown = if list.is_empty() { usize::MAX } else { SHOWN };
            for activity in activities.iter().take(shown) {
                let line = one_line(&activity.line);
                writeln!(out, "  {}", cut(&line, layout.columns - 2))?;
                writeln!(out, "{INDENT}{}", activity.next)?;
            }
            let more = activities.len().saturating_sub(shown);
            if more > 0 {
                writeln!(out, "  and {more} more:  {Me} {list}")?;
            }
        }
        self.write_durability_warnings(out, layout)
    }

    fn depths(&self) -> Table {
        table!(queue in &self.queues => {
            Text "QUEUE" => queue.queue,
            Number "READY" => grouped(queue.ready),
            Number "WAIT" => queue.oldest_ready.map_or_else(|| "-".to_owned(), short),
            Number "DELAYED" => grouped(queue.delayed),
            Number "LEASED" => grouped(queue.leased),
            Number "WORKERS" => grouped(queue.workers),
            Number "LETTERS" => grouped(queue.open + queue.quarantined),
            Number "OLDEST" => queue.oldest_open.map_or_else(|| "-".to_owned(), ago),
        })
    }

    fn write_failures(&self, out: &mut dyn Write, layout: Layout) -> Result<()> {
        if self.groups.is_empty() {
            match self
                .queues
                .iter()
                .map(|queue| queue.open + queue.quarantined)
                .sum()
            {
                0 => writeln!(out, "\nNo letters are waiting.")?,
                ignored => {
                    let text = format!(
                        "No letters are waiting, except {} of ignored groups:",
                        counted(ignored, "letter")
                    );
                    writeln!(out, "\n{}", wrapped(&text, layout.columns))?;
                    writeln!(out, "{INDENT}{Me} dlq groups --state ignored")?;
                }
            }
            return Ok(());
        }
        layout.heading("Most frequent failures", out)?;
        let failures = failures(&self.groups);
        for failure in failures.iter().take(SHOWN) {
            write_failure(failure, out, layout)?;
        }
        let is_complete = (self.groups.len() as u64) < GROUPS;
        if failures.len() > SHOWN || !is_complete {
            writeln!(out, "  more:  {Me} dlq groups")?;
        }
        Ok(())
    }

    fn write_durability_warnings(&self, out: &mut dyn Write, layout: Layout) -> Result<()> {
        if self.durability_warnings.is_empty() {
            return Ok(());
        }
        layout.heading("Data at risk in a crash", out)?;
        for warning in &self.durability_warnings {
            layout.indented("  ", &one_line(warning), out)?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let failures = failures(&self.groups);
        let failures = failures.iter().take(SHOWN).map(Failure::json);
        json!({
            "failures": failures.collect::<Vec<_>>(),
            "durability_warnings": self.durability_warnings,
        })
    }
}

impl Layout {
    fn heading(self, text: &str, out: &mut dyn Write) -> Result<()> {
        Ok(writeln!(out, "\n{}", self.style.heading(text))?)
    }

    /// Writes a text that fits the window beside this indent.
    fn indented(self, indent: &str, text: &str, out: &mut dyn Write) -> Result<()> {
        for line in wrapped(text, self.columns - indent.len()).lines() {
            writeln!(out, "{indent}{line}")?;
        }
        Ok(())
    }
}

/// Writes a failure. Its message has its own line if it would be cut to less than half of the window
/// beside the queue and kind.
fn write_failure(failure: &Failure<'_>, out: &mut dyn Write, layout: Layout) -> Result<()> {
    let newest = failure.newest;
    let (id, kind) = match failure.only() {
        Some(group) => (group.id.to_string(), group.kind.clone()),
        None => ("-".to_owned(), format!("({} kinds)", failure.kinds.len())),
    };
    let id = format!("  {id:<6}");
    let place = one_line(&format!("{} {kind}", newest.queue));
    let message = one_line(&self::failure(newest));
    // The count stays when a long message is cut.
    let others = match failure.waiting.saturating_sub(1) {
        0 => String::new(),
        others => format!(" (+{} alike)", grouped(others)),
    };
    let room = layout.columns.saturating_sub(width(&id) + width(&others));
    let line = format!("{place} {message}");
    let beside = room.saturating_sub(width(&place) + 1);
    if width(&line) > room && beside < layout.columns / 2 {
        writeln!(out, "{id}{}{others}", cut(&place, room))?;
        let message = cut(&message, layout.columns - INDENT.len());
        writeln!(out, "{INDENT}{message}")?;
    } else {
        writeln!(out, "{id}{}{others}", cut(&line, room))?;
    }
    write_state(failure, out, layout)?;
    let hours = failure.hours();
    writeln!(out, "{INDENT}|{}| {} h", sparkline(&hours), hours.len())?;
    Ok(writeln!(out, "{INDENT}{}", failure.next())?)
}

/// Writes the states, owner, letters and the last death of a failure.
fn write_state(failure: &Failure<'_>, out: &mut dyn Write, layout: Layout) -> Result<()> {
    let waiting = grouped(failure.waiting);
    let kinds = match failure.kinds.len() {
        1 => String::new(),
        kinds => format!(" in {kinds} kinds"),
    };
    let quarantined = match failure.quarantined {
        0 => String::new(),
        quarantined => format!(" ({} quarantined)", grouped(quarantined)),
    };
    let owner = failure
        .owner()
        .map(|owner| format!(" ({})", cut(&one_line(owner), 20)));
    let states = failure.states();
    let text = format!(
        "{states}{}, {waiting} waiting{kinds}{quarantined}, last {} ago",
        owner.unwrap_or_default(),
        ago(failure.newest.last_seen)
    );
    let regression = layout.style.error("REGRESSION");
    layout.indented(INDENT, &text.replacen("REGRESSION", &regression, 1), out)
}
