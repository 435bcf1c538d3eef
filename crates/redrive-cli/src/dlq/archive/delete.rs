//! `redrive dlq archive delete`: deletes archived letters.

use super::{not_taken, nothing_matched, table};
use crate::batches::{Batches, Undo};
use crate::dry_run::{DryRun, SAMPLE};
use crate::prelude::*;

/// Delete archived letters
///
/// Without --yes this is a dry run, for letters given by id too. Deleted letters cannot be
/// restored. The audit log keeps the conditions and the number of letters.
#[derive(Args, Debug)]
#[command(
    before_help = "\
Examples:
  redrive dlq archive delete orders 'age>730d' --reason 'retention policy' --yes
  redrive dlq archive delete 42 --yes
",
    after_help = "\
To delete everything about a person or tenant, see `redrive erase --help`. Ctrl-C stops
after the current batch of 2,000 letters. The exit code is 1 then, if a letter given by id
is not deleted, and if nothing matches."
)]
pub(crate) struct DeleteArchived {
    #[command(flatten)]
    selection: Bulk,
}

impl DeleteArchived {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let filter = self.selection.letters()?;
        let db = cx.database()?;
        let total = self.selection.limited(db.dlq().count_archived(&filter)?);
        let is_confirmed = self.selection.confirm.yes;
        let mut rest = self.selection.ids();
        if total == 0 && (!is_confirmed || rest.is_empty()) {
            cx.no_change("delete", "letters", !is_confirmed)?;
            return Ok(nothing_matched(&filter, cx));
        }
        if !is_confirmed {
            let dry_run = DryRun::of_letters("delete", total, vec!["--yes"]);
            let heading = format!(
                "{} would be deleted from the archive, which cannot be undone.",
                counted(total, "letter")
            );
            let some = filter.limit(SAMPLE.min(total));
            let sample = || Ok(Some(table(&db.dlq().archived(&some)?)));
            return dry_run.show(&heading, sample, cx);
        }
        if !rest.is_empty() {
            let found = db.dlq().archived(&filter)?;
            rest.retain(|id| !found.iter().any(|archived| archived.letter.id == *id));
        }
        let not_done = not_taken(&rest, &db);
        let batches = Batches {
            noun: "letter",
            action: "delete",
            progressive: "deleting",
            participle: "deleted",
            undo: Undo::Hint("deleted letters cannot be restored"),
        };
        let operator = self.selection.operator();
        let ended = batches.run(total, cx, |go_on| {
            let delete = |deleted: u64| go_on(deleted.into());
            db.dlq().delete_archived_while(&filter, &operator, delete)
        })?;
        let done = ended.so_far.done;
        let mut line = batches.json(done);
        line["skipped"] = not_done.json("letters").into();
        cx.print(&line, batches.text(done))?;
        not_done.say("letter", batches.participle, cx);
        ended.or_stopped(Ending::of(not_done.0.is_empty()), cx)
    }
}
