//! `redrive prune`: deletes or archives old letters.

use std::time::Duration;

use clap::Args;
use redrive::Database;
use serde_json::json;

use crate::context::{Context, Ending};
use crate::dlq::{rule_cells, rule_json};
use crate::error::Result;
use crate::operator;
use crate::terminal::{Column, Progress, Table, counted, grouped, json_line};
use crate::time::{self, short};

/// The age without retention rules: 30 days.
const DEFAULT_AGE: Duration = Duration::from_hours(30 * 24);

/// Delete old letters, or apply the retention rules
///
/// With --older-than, recovered and discarded letters of that age are deleted. Without it, the
/// rules of `dlq retention` are applied; if there are none, --older-than 30d is the default. Open
/// letters are deleted only by a rule. The exit code is 0 even if nothing was deleted, so that
/// this can run from a timer.
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive prune --dry-run
  redrive prune --older-than 90d
")]
pub(crate) struct Prune {
    /// Time since the letters were recovered or discarded, such as 12h or 30d.
    #[arg(long, value_name = "AGE", value_parser = time::parse, allow_hyphen_values = true)]
    older_than: Option<Duration>,
    /// Change nothing; show the rules, and how many letters they affect now.
    #[arg(long, conflicts_with = "older_than")]
    dry_run: bool,
    /// The reason, for the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Prune {
    pub(crate) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        if self.dry_run {
            return dry_run(&db, cx);
        }
        let operator = operator::current(self.reason.as_deref());
        let progress = Progress::unknown("pruning letters");
        let has_rules = self.older_than.is_none() && !db.dlq().retention().list()?.is_empty();
        let (pruned, verb) = match has_rules {
            true => (
                db.dlq().retention().apply(&operator)?,
                "deleted or archived",
            ),
            false => {
                let age = self.older_than.unwrap_or(DEFAULT_AGE);
                (db.dlq().prune(age, &operator)?, "pruned")
            }
        };
        drop(progress);
        if cx.global.json {
            json_line(cx.out, &json!({ "pruned": pruned }))?;
        } else {
            writeln!(cx.out, "{verb} {}", counted(pruned, "letter"))?;
        }
        Ok(Ending::Done)
    }
}

fn dry_run(db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
    if db.dlq().retention().list()?.is_empty() {
        cx.say(format!(
            "there are no retention rules; recovered and discarded letters older than {} would be \
             deleted",
            short(DEFAULT_AGE)
        ));
        return Ok(Ending::Done);
    }
    let due = db.dlq().retention().due()?;
    if cx.global.json {
        for due in &due {
            let mut line = rule_json(&due.rule);
            line["letters"] = due.letters.into();
            json_line(cx.out, &line)?;
        }
        return Ok(Ending::Done);
    }
    let mut table = Table::new([
        Column::Text("QUEUE"),
        Column::Text("STATE"),
        Column::Number("KEEP"),
        Column::Text("THEN"),
        Column::Number("LETTERS NOW"),
    ]);
    for due in &due {
        let letters = grouped(due.letters);
        table.row(rule_cells(&due.rule).into_iter().chain([letters]));
    }
    table.write(cx.out)?;
    let total = due.iter().map(|due| due.letters).sum();
    writeln!(
        cx.out,
        "\n{} would be deleted or archived. Nothing was changed. To act:\n  redrive prune",
        counted(total, "letter")
    )?;
    Ok(Ending::Done)
}
