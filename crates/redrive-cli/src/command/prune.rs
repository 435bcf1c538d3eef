//! `redrive prune`: letters whose time is over.

use std::time::Duration;

use clap::Args;
use redrive::Database;
use serde_json::json;

use super::dlq::retention::{cells, object};
use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::duration::{self, short};
use crate::error::Result;
use crate::progress::Progress;
use crate::render::{counted, grouped, json_line};
use crate::table::{Column, Table};
use crate::{Ending, Streams, person};

/// What is pruned when there is no rule of retention and no age is given.
const DEFAULT_AGE: Duration = Duration::from_hours(30 * 24);

/// Delete letters that were recovered or discarded long ago, or do what the rules of retention say.
///
/// With --older-than, recovered and discarded letters of that age are deleted. Without it the
/// rules of `dlq retention` are applied now; when there is none, it is as with --older-than 30d.
/// Open letters are never deleted unless a rule says so. Nothing to delete is no failure: the exit
/// code is 0, so that a timer can run it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  redrive prune --dry-run
  redrive prune --older-than 90d")]
pub(crate) struct Prune {
    /// How long ago they must have been closed: 12h, 30d.
    #[arg(long, value_name = "AGE", value_parser = duration::parse, allow_hyphen_values = true)]
    older_than: Option<Duration>,
    /// Change nothing: show the rules, and how many letters they would take now.
    #[arg(long, conflicts_with = "older_than")]
    dry_run: bool,
    /// Why, for the audit.
    #[arg(long)]
    why: Option<String>,
}

impl Prune {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let db = connect::database(arguments, Patience::Minute, io)?;
        if self.dry_run {
            return dry_run(&db, arguments, io);
        }
        let act = person::act(self.why.as_deref());
        let progress = Progress::unknown("pruning letters");
        let has_rules = self.older_than.is_none() && !db.retention()?.is_empty();
        let (pruned, verb) = match has_rules {
            true => (db.retain(&act)?, "deleted or archived"),
            false => {
                let age = self.older_than.unwrap_or(DEFAULT_AGE);
                (db.prune_by(age, &act)?, "pruned")
            }
        };
        drop(progress);
        if arguments.json {
            json_line(io.out, &json!({ "pruned": pruned }))?;
        } else {
            writeln!(io.out, "{verb} {}", counted(pruned, "letter"))?;
        }
        Ok(Ending::Done)
    }
}

fn dry_run(db: &Database, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
    if db.retention()?.is_empty() {
        io.say(format!(
            "there is no rule; recovered and discarded letters of over {} would be deleted",
            short(DEFAULT_AGE)
        ));
        return Ok(Ending::Done);
    }
    let due = db.retention_due()?;
    if arguments.json {
        for due in &due {
            let mut line = object(&due.rule);
            line["letters"] = due.letters.into();
            json_line(io.out, &line)?;
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
        table.row(cells(&due.rule).into_iter().chain([letters]));
    }
    table.write(io.out)?;
    let total = due.iter().map(|due| due.letters).sum();
    writeln!(
        io.out,
        "\n{} would go. Nothing was changed. To act:\n  redrive prune",
        counted(total, "letter")
    )?;
    Ok(Ending::Done)
}
