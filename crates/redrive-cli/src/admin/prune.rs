//! `redrive prune`: deletes or archives old letters, and deletes old audit records.

use std::time::Duration;

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

/// What a prune removes.
enum Scope {
    /// Audit records of this age.
    Audit(Duration),
    /// Closed letters of this age.
    OlderThan(Duration),
    /// The letters that are due according to the retention rules.
    Rules(Vec<RetentionDue>),
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
        let scope = match self.older_than {
            Some(age) if self.audit => Scope::Audit(age),
            Some(age) => Scope::OlderThan(age),
            None if db.dlq().retention().list()?.is_empty() => Scope::OlderThan(DEFAULT_AGE),
            None => Scope::Rules(db.dlq().retention().due()?),
        };
        let (batches, total) = match &scope {
            Scope::Audit(age) => (AUDIT, db.admin().count_prunable_audit(*age)?),
            Scope::OlderThan(age) => (LETTERS, db.dlq().count_prunable(*age)?),
            Scope::Rules(due) => (BY_RULES, due.iter().map(|due| due.letters).sum()),
        };
        if !self.confirm.yes {
            return self.show(&scope, &batches, total, cx);
        }
        let operator = self.confirm.reason.operator();
        let ended = batches.run(total, cx, |db| match scope {
            Scope::Audit(age) => db.admin().prune_audit(age, &operator),
            Scope::OlderThan(age) => db.dlq().prune(age, &operator),
            Scope::Rules(_) => db.dlq().retention().apply(&operator),
        })?;
        let done = ended.so_far.done;
        let ending = cx.print(&batches.json(done), batches.text(done))?;
        ended.or_stopped(ending, cx)
    }

    /// Shows what would be removed.
    fn show(
        &self,
        scope: &Scope,
        batches: &Batches,
        total: u64,
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        let (rows, to_act) = (counted(total, batches.noun), self.confirm.to_act());
        let (age, text) = match scope {
            Scope::Audit(age) => (*age, format!("older than {}", short(*age))),
            Scope::OlderThan(age) => (
                *age,
                format!("recovered or discarded more than {} ago", short(*age)),
            ),
            Scope::Rules(due) => return show_due(due, &rows, to_act, cx),
        };
        if cx.global.json {
            let mut line = batches.json(total);
            line["dry_run"] = true.into();
            line["older_than_ms"] = json!(age.json());
            return cx.json(&line);
        }
        writeln!(cx.out, "{rows}, {text}, would be deleted.")?;
        match self.older_than {
            Some(_) => cx.propose(&[to_act]),
            // Rules may be set before the act.
            None => cx.propose(&[&format!("--older-than {}", exact(age)), to_act]),
        }
    }
}

/// Shows the letters that are due according to each rule.
fn show_due(
    due: &[RetentionDue],
    rows: &str,
    to_act: &str,
    cx: &mut Context<'_>,
) -> Result<Ending> {
    let json = |due: &RetentionDue| {
        let mut line = json!(rule_json(&due.rule));
        line["action"] = "prune".into();
        line["dry_run"] = true.into();
        line["letters"] = due.letters.into();
        line
    };
    let table = table!(due in due => {
        Text "QUEUE" => due.rule.queue.as_deref().unwrap_or(EVERY_QUEUE),
        Word "STATE" => due.rule.state,
        Number "KEEP" => short(due.rule.keep),
        Word "THEN" => due.rule.action,
        Number "LETTERS NOW" => grouped(due.letters),
    });
    if due.is_empty() {
        cx.no_change("prune", "letters", true)?;
    }
    cx.items(due, json, &table)?;
    if cx.global.json {
        return Ok(Ending::Done);
    }
    writeln!(cx.out, "\n{rows} would be deleted or archived.")?;
    cx.propose(&[to_act])
}
