//! `redrive prune`: deletes old letters or audit records.

use std::time::Duration;

use crate::batches::{Batches, Undo};
use crate::prelude::*;

/// Delete old letters or audit records
///
/// Without --yes this is a dry run. Recovered and discarded letters of this age are deleted, whatever the rules of
/// `dlq retention`, which the workers apply. With --audit, audit records of this age are deleted, at least 30 days old;
/// each batch leaves a record.
#[derive(Args, Debug)]
#[command(
    before_help = "\
Examples:
  redrive prune --older-than 90d
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
    older_than: Duration,
    /// Delete audit records instead of letters.
    #[arg(long)]
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

impl Prune {
    pub(crate) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let (db, age) = (&cx.database()?, self.older_than);
        let (batches, total) = match self.audit {
            true => (AUDIT, db.admin().count_prunable_audit(age)?),
            false => (LETTERS, db.dlq().count_prunable(age)?),
        };
        if self.confirm.yes {
            let operator = self.confirm.reason.operator();
            let ended = batches.run(total, cx, |db| match self.audit {
                true => db.admin().prune_audit(age, &operator),
                false => db.dlq().prune(age, &operator),
            })?;
            let done = ended.so_far.done;
            let ending = cx.print(&batches.json(done), batches.text(done))?;
            return ended.or_stopped(ending, cx);
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
        cx.propose(&[self.confirm.to_act()])
    }
}
