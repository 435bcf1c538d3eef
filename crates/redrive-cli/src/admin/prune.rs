//! `redrive prune`: deletes or archives old letters, and deletes old audit records.

use std::time::Duration;

use redrive::Operator;
use redrive::dlq::RetentionDue;

use crate::batches::{Batches, Undo};
use crate::dlq::{EVERY_QUEUE, rule_json};
use crate::prelude::*;

/// The age without retention rules: 30 days.
const DEFAULT_AGE: Duration = Duration::from_hours(30 * 24);

/// Delete old letters or audit records, or apply the retention rules
///
/// Without --yes this is a dry run. With --older-than, recovered and discarded letters of that age
/// are deleted. Without it, the rules of `dlq retention` are applied; if there are none,
/// --older-than 30d is the default. No rule deletes open letters. Workers apply the
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

const LETTERS: Batches = Batches {
    noun: "letter",
    action: "prune",
    participle: "pruned",
    undo: Undo::Hint("deleted letters cannot be restored"),
};
const AUDIT: Batches = Batches {
    noun: "audit record",
    undo: Undo::Hint("repeat the command for the others"),
    ..LETTERS
};
const BY_RULES: Batches = Batches {
    participle: "deleted or archived",
    undo: Undo::Hint(
        "deleted letters cannot be restored; `dlq archive list` has the archived ones",
    ),
    ..LETTERS
};

impl Prune {
    pub(crate) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = &cx.database()?;
        if self.older_than.is_none() && !db.dlq().retention().list()?.is_empty() {
            return self.by_rules(db, cx);
        }
        let age = self.older_than.unwrap_or(DEFAULT_AGE);
        let (batches, total) = match self.audit {
            true => (AUDIT, db.admin().count_prunable_audit(age)?),
            false => (LETTERS, db.dlq().count_prunable(age)?),
        };
        if self.confirm.yes {
            return self.act(&batches, total, cx, |db, operator| match self.audit {
                true => db.admin().prune_audit(age, operator),
                false => db.dlq().prune(age, operator),
            });
        }
        if cx.global.json {
            let mut line = batches.json(total);
            line["dry_run"] = true.into();
            line["older_than_ms"] = json!(age.json());
            return cx.json(&line);
        }
        let old = match self.audit {
            true => format!("older than {}", short(age)),
            false => format!("recovered or discarded more than {} ago", short(age)),
        };
        let rows = counted(total, batches.noun);
        writeln!(cx.out, "{rows}, {old}, would be deleted.")?;
        match self.older_than {
            Some(_) => cx.propose(&[self.confirm.to_act()]),
            // Rules may be set before the act.
            None => cx.propose(&[
                &format!("--older-than {}", exact(age)),
                self.confirm.to_act(),
            ]),
        }
    }

    /// Prunes the letters that are due according to each rule, or shows how many they are.
    fn by_rules(&self, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
        let due = db.dlq().retention().due()?;
        let total = due.iter().map(|due| due.letters).sum();
        if self.confirm.yes {
            return self.act(&BY_RULES, total, cx, |db, operator| {
                db.dlq().retention().apply(operator)
            });
        }
        let json = |due: &RetentionDue| {
            let mut line = json!(rule_json(&due.rule));
            line["action"] = "prune".into();
            line["dry_run"] = true.into();
            line["letters"] = due.letters.into();
            line
        };
        let table = table!(due in &due => {
            Text "QUEUE" => due.rule.queue.as_deref().unwrap_or(EVERY_QUEUE),
            Word "STATE" => due.rule.state,
            Number "KEEP" => short(due.rule.keep),
            Word "THEN" => due.rule.action,
            Number "LETTERS NOW" => grouped(due.letters),
        });
        if due.is_empty() {
            cx.no_change("prune", "letters", true)?;
        }
        cx.items(&due, json, &table)?;
        if cx.global.json {
            return Ok(Ending::Done);
        }
        let rows = counted(total, BY_RULES.noun);
        writeln!(cx.out, "\n{rows} would be deleted or archived.")?;
        cx.propose(&[self.confirm.to_act()])
    }

    fn act(
        &self,
        batches: &Batches,
        total: u64,
        cx: &mut Context<'_>,
        prune: impl FnOnce(&Database, &Operator) -> redrive::Result<u64>,
    ) -> Result<Ending> {
        let operator = self.confirm.reason.operator();
        let ended = batches.run(total, cx, |db| prune(db, &operator))?;
        let done = ended.so_far.done;
        let ending = cx.print(&batches.json(done), batches.text(done))?;
        ended.or_stopped(ending, cx)
    }
}
