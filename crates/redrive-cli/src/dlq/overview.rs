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
    // The screen is useful without the durability check, so its error is ignored.
    let at_risk = db.admin().durability_warnings().unwrap_or_default();
    // The parts: their headings, the command that lists their entries, and what they show. Without a command, all is
    // shown.
    let parts: [(&str, &str, Vec<Activity>); 7] = [
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
    ];
    if cx.global.json {
        let failures: Vec<Value> = failures.iter().map(Failure::json).collect();
        let others = parts.iter().skip(1);
        let others = others.flat_map(|(part, _, all)| all.iter().map(|one| one.json(part)));
        let others: Vec<Value> = others.collect();
        return cx.json(&json!({
            "failures": failures, "others": others, "durability_warnings": at_risk,
        }));
    }
    let layout = Layout {
        style: Style::of_stdout(),
        columns: columns_of_stdout().unwrap_or(SCREEN),
    };
    match queues.is_empty() {
        true => writeln!(cx.out, "All queues are empty.")?,
        false => depths(&queues).write_in(Some(layout.columns), cx.out)?,
    }
    if failures.is_empty() && !queues.is_empty() {
        let letters = queues.iter().map(|queue| queue.open + queue.quarantined);
        let text = match letters.sum() {
            0 => "No letters are waiting.".to_owned(),
            ignored => format!(
                "No letters are waiting, except {} of ignored groups:\n{INDENT}{Me} dlq groups --state ignored",
                counted(ignored, "letter")
            ),
        };
        writeln!(cx.out, "\n{}", wrapped(&text, layout.columns))?;
    }
    for (heading, list, activities) in &parts {
        layout.part(heading, list, activities, cx.out)?;
    }
    if !at_risk.is_empty() {
        layout.heading("Data at risk in a crash", cx.out)?;
    }
    for warning in &at_risk {
        layout.indented("  ", &one_line(warning), cx.out)?;
    }
    Ok(Ending::Done)
}

fn depths(queues: &[QueueStats]) -> Table {
    table!(queue in queues => {
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

impl Layout {
    fn part(
        self,
        heading: &str,
        list: &str,
        activities: &[Activity],
        out: &mut dyn Write,
    ) -> Result<()> {
        if !activities.is_empty() {
            self.heading(heading, out)?;
        }
        let shown = if list.is_empty() { usize::MAX } else { SHOWN };
        for activity in activities.iter().take(shown) {
            let line = one_line(&activity.line);
            writeln!(out, "  {}", cut(&line, self.columns - 2))?;
            for detail in &activity.details {
                let regression = self.style.error("REGRESSION");
                let detail = detail.replacen("REGRESSION", &regression, 1);
                self.indented(INDENT, &detail, out)?;
            }
            writeln!(out, "{INDENT}{}", activity.next)?;
        }
        let more = activities.len().saturating_sub(shown);
        if more > 0 {
            writeln!(out, "  and {more} more:  {Me} {list}")?;
        }
        Ok(())
    }

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
