//! `redrive prune`: deletes or archives old letters, and deletes old audit records.

use std::time::Duration;

use clap::Args;
use redrive::Database;
use redrive::dlq::RetentionDue;
use serde_json::json;

use crate::batches::Batches;
use crate::context::{Context, Ending};
use crate::dlq::{EVERY_QUEUE, rule_json};
use crate::error::Result;
use crate::selection::Confirm;
use crate::terminal::{counted, grouped, table};
use crate::time::{self, exact, short};

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
    #[command(flatten)]
    confirm: Confirm,
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
            Some(age) if self.audit => return self.prune_audit(age, &db, cx),
            Some(age) => Scope::OlderThan(age),
            None if db.dlq().retention().list()?.is_empty() => Scope::OlderThan(DEFAULT_AGE),
            None => Scope::Rules,
        };
        match (scope, self.confirm.yes) {
            (Scope::OlderThan(age), false) => dry_run_by_age(age, &db, cx),
            (Scope::Rules, false) => dry_run_of_rules(&db, cx),
            (scope, true) => self.prune(&scope, &db, cx),
        }
    }

    /// Deletes audit records of this age.
    fn prune_audit(&self, age: Duration, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
        let records = db.admin().count_prunable_audit(age)?;
        if !self.confirm.yes {
            return cx.print(
                &json!({
                    "dry_run": true,
                    "action": "prune",
                    "older_than_ms": age.as_millis(),
                    "audit_records": records,
                }),
                format!(
                    "{}, older than {}, would be deleted.\n\
                     Nothing was changed. To act:\n  redrive prune --audit --older-than {} --yes",
                    counted(records, "audit record"),
                    short(age),
                    exact(age),
                ),
            );
        }
        let prune = Batches {
            action: "prune",
            progressive: "pruning the audit log",
            participle: "pruned",
            noun: "audit record",
            total: records,
            undo: "repeat the command for the others",
        };
        let operator = self.confirm.operator();
        prune.run(cx, |go_on| db.admin().prune_audit(age, &operator, go_on))
    }

    /// Removes letters in batches, until a signal arrives.
    fn prune(&self, scope: &Scope, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
        let operator = self.confirm.operator();
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
        let prune = Batches {
            action: "prune",
            progressive: "pruning letters",
            participle,
            noun: "letter",
            total,
            undo,
        };
        prune.run(cx, |go_on| match scope {
            Scope::OlderThan(age) => db.dlq().prune_while(*age, &operator, go_on),
            Scope::Rules => db.dlq().retention().apply_while(&operator, go_on),
        })
    }
}

fn dry_run_by_age(age: Duration, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
    let letters = db.dlq().count_prunable(age)?;
    cx.print(
        &json!({
            "dry_run": true,
            "action": "prune",
            "older_than_ms": u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
            "letters": letters,
        }),
        format!(
            "{}, recovered or discarded more than {} ago, would be deleted.\n\
             Nothing was changed. To act:\n  redrive prune --older-than {} --yes",
            counted(letters, "letter"),
            short(age),
            exact(age),
        ),
    )
}

fn dry_run_of_rules(db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
    let due = db.dlq().retention().due()?;
    let json = |due: &RetentionDue| {
        let mut line = rule_json(&due.rule);
        line["dry_run"] = true.into();
        line["letters"] = due.letters.into();
        line
    };
    let table = table!(due in &due => {
        Text "QUEUE" => due.rule.for_queue().unwrap_or(EVERY_QUEUE),
        Word "STATE" => due.rule.state(),
        Number "KEEP" => short(due.rule.keep()),
        Word "THEN" => due.rule.action(),
        Number "LETTERS NOW" => grouped(due.letters),
    });
    cx.items(&due, json, &table)?;
    if !cx.global.json {
        let total = due.iter().map(|due| due.letters).sum();
        let total = counted(total, "letter");
        writeln!(cx.out, "\n{total} would be deleted or archived.")?;
        cx.propose("redrive prune --yes")?;
    }
    Ok(Ending::Done)
}
