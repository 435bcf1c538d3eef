//! `redrive prune`: deletes or archives old letters, and deletes old audit records.

mod audit;

use std::ops::ControlFlow;
use std::time::Duration;

use clap::Args;
use redrive::Database;
use serde_json::json;

use crate::context::{Context, Ending};
use crate::dlq::{Stopped, rule_cells, rule_json};
use crate::error::Result;
use crate::operator;
use crate::stop::StopSignal;
use crate::terminal::{Column, Progress, Table, counted, grouped, json_line};
use crate::time::{self, exact, short};
use audit::PruneAudit;

/// The age without retention rules: 30 days.
const DEFAULT_AGE: Duration = Duration::from_hours(30 * 24);

/// Delete old letters or audit records, or apply the retention rules
///
/// Without --yes this is a dry run. With --older-than, recovered and discarded letters of that age
/// are deleted. Without it, the rules of `dlq retention` are applied; if there are none,
/// --older-than 30d is the default. Open letters are deleted only by a rule. Workers apply the
/// rules too. With --audit, audit records of that age are deleted, at least 30 days old; each batch
/// leaves a record.
#[derive(Args, Debug)]
#[command(
    before_help = "\
Examples:
  redrive prune
  redrive prune --older-than 90d --yes
  redrive prune --audit --older-than 730d --yes
",
    after_help = "\
The exit code is 0 even if nothing was deleted, so that this can run from a
timer. Ctrl-C stops after the current batch; the exit code is 1 then."
)]
pub(crate) struct Prune {
    /// Time since the letters were recovered or discarded, such as 12h or 30d.
    #[arg(long, value_name = "AGE", value_parser = time::parse, allow_hyphen_values = true)]
    older_than: Option<Duration>,
    /// Delete audit records instead of letters.
    #[arg(long, requires = "older_than")]
    audit: bool,
    /// Change nothing; show the rules, and how many letters they affect now.
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Delete or archive the letters.
    #[arg(long)]
    yes: bool,
    /// The reason, for the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// The letters that a prune removes.
enum Scope {
    /// Closed letters of this age.
    OlderThan(Duration),
    /// The letters that are due according to the retention rules.
    Rules,
}

impl Prune {
    pub(crate) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let scope = match self.older_than {
            Some(age) if self.audit => {
                let prune = PruneAudit {
                    older_than: age,
                    reason: self.reason.as_deref(),
                };
                return match self.yes {
                    true => prune.prune(&db, cx),
                    false => prune.dry_run(&db, cx),
                };
            }
            Some(age) => Scope::OlderThan(age),
            None if db.dlq().retention().list()?.is_empty() => Scope::OlderThan(DEFAULT_AGE),
            None => Scope::Rules,
        };
        match (scope, self.yes) {
            (Scope::OlderThan(age), false) => dry_run_by_age(age, &db, cx),
            (Scope::Rules, false) => dry_run_of_rules(&db, cx),
            (scope, true) => self.prune(&scope, &db, cx),
        }
    }

    /// Removes letters in batches, until a signal arrives.
    fn prune(&self, scope: &Scope, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
        let mut stop = StopSignal::listen()?;
        let operator = operator::current(self.reason.as_deref());
        let (total, participle, undo) = match scope {
            Scope::OlderThan(age) => (
                db.dlq().count_prunable(*age)?,
                "pruned",
                "deleted letters cannot be restored",
            ),
            Scope::Rules => (
                db.dlq()
                    .retention()
                    .due()?
                    .iter()
                    .map(|due| due.letters)
                    .sum(),
                "deleted or archived",
                "deleted letters cannot be restored; for the archived ones: redrive dlq archive list",
            ),
        };
        let progress = Progress::of("pruning letters", total);
        let (mut pruned, mut course) = (0, ControlFlow::Continue(()));
        let go_on = |so_far: u64| {
            pruned = so_far;
            progress.at(pruned);
            course = stop.check();
            course
        };
        let done = match scope {
            Scope::OlderThan(age) => db.dlq().prune_while(*age, &operator, go_on),
            Scope::Rules => db.dlq().retention().apply_while(&operator, go_on),
        };
        drop(progress);
        let stopped = Stopped {
            done: pruned,
            total,
            participle,
            undo: (pruned > 0).then(|| undo.to_owned()),
        };
        done.inspect_err(|_| stopped.say_after_error(cx))?;
        if cx.global.json {
            json_line(cx.out, &json!({ "action": "prune", "letters": pruned }))?;
        } else {
            writeln!(cx.out, "{participle} {}", counted(pruned, "letter"))?;
        }
        if course.is_break() && pruned < total {
            stopped.say(cx)?;
            return Ok(Ending::NothingMatched);
        }
        Ok(Ending::Done)
    }
}

fn dry_run_by_age(age: Duration, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
    let letters = db.dlq().count_prunable(age)?;
    if cx.global.json {
        json_line(
            cx.out,
            &json!({
                "dry_run": true,
                "action": "prune",
                "older_than_ms": u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
                "letters": letters,
            }),
        )?;
        return Ok(Ending::Done);
    }
    writeln!(
        cx.out,
        "{}, recovered or discarded more than {} ago, would be deleted.\n\
         Nothing was changed. To act:\n  redrive prune --older-than {} --yes",
        counted(letters, "letter"),
        short(age),
        exact(age),
    )?;
    Ok(Ending::Done)
}

fn dry_run_of_rules(db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
    let due = db.dlq().retention().due()?;
    if cx.global.json {
        for due in &due {
            let mut line = rule_json(&due.rule);
            line["dry_run"] = true.into();
            line["letters"] = due.letters.into();
            json_line(cx.out, &line)?;
        }
        return Ok(Ending::Done);
    }
    let mut table = Table::new([
        Column::Text("QUEUE"),
        Column::Word("STATE"),
        Column::Number("KEEP"),
        Column::Word("THEN"),
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
        "\n{} would be deleted or archived. Nothing was changed. To act:\n  redrive prune --yes",
        counted(total, "letter")
    )?;
    Ok(Ending::Done)
}
