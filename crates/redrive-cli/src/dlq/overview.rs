//! `redrive dlq` without a subcommand: the on-call screen.
//!
//! It shows queue depths, the most frequent failures, the oldest letter, ready jobs without a worker, held
//! groups, active runs, paused queues and open breakers, each with the command to type next. It is as wide
//! as the window.

mod activity;
mod failures;

use std::io::Write;

use redrive::admin::QueueStats;
use redrive::dlq::{GroupFilter, GroupState};
use serde_json::Value;

use crate::prelude::*;
use crate::terminal::{SCREEN, Style, columns_of_stdout, cut, wrapped};
use activity::{Activity, breakers, held_groups, oldest_letter, pauses, runs, unhandled};
use failures::{Failure, failures};

/// How many entries are shown of each part that a command lists.
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
    /// The failures that are shown.
    failures: Vec<Value>,
    /// The parts: their headings, the command that lists their entries, also as JSON, and what they show.
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
    let queues = db.admin().stats(None)?;
    let groups = db.dlq().groups().list(&filter)?;
    let failures = failures(&groups);
    let screen = Screen {
        failures: failures.iter().take(SHOWN).map(Failure::json).collect(),
        sections: vec![
            (
                "Most frequent failures",
                "dlq groups",
                failures.iter().map(Failure::activity).collect(),
            ),
            ("Oldest letter", "", oldest_letter(&queues)),
            (
                "Ready jobs without a worker",
                "stats",
                queues.iter().filter_map(unhandled).collect(),
            ),
            ("Held groups", "", held_groups(db)?),
            ("Redrive runs", "dlq runs list", runs(db)?),
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
            if self.failures.is_empty() {
                self.write_no_failures(out, layout)?;
            }
        }
        for (heading, list, activities) in &self.sections {
            if !activities.is_empty() {
                layout.heading(heading, out)?;
            }
            let shown = if list.is_empty() { usize::MAX } else { SHOWN };
            for activity in activities.iter().take(shown) {
                let line = one_line(&activity.line);
                writeln!(out, "  {}", cut(&line, layout.columns - 2))?;
                for detail in &activity.details {
                    let regression = layout.style.error("REGRESSION");
                    let detail = detail.replacen("REGRESSION", &regression, 1);
                    layout.indented(INDENT, &detail, out)?;
                }
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

    fn write_no_failures(&self, out: &mut dyn Write, layout: Layout) -> Result<()> {
        let letters = self.queues.iter();
        match letters.map(|queue| queue.open + queue.quarantined).sum() {
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
        json!({
            "failures": self.failures,
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
