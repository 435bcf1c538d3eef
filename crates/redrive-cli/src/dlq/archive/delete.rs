//! `redrive dlq archive delete`: deletes archived letters.

use super::{nothing_matched, table};
use crate::batches::{Batches, Undo};
use crate::dry_run::SAMPLE;
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
after the current batch of 2,000 letters; the exit code is 1 then, and if nothing matches."
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
        if cx.global.json && (total == 0 || !is_confirmed) {
            let line = json!({ "action": "delete", "dry_run": !is_confirmed, "letters": total });
            json_line(cx.out, &line)?;
        }
        if total == 0 {
            return Ok(nothing_matched(&filter, cx));
        }
        if cx.global.json && !is_confirmed {
            return Ok(Ending::Done);
        }
        if !is_confirmed {
            writeln!(
                cx.out,
                "{} would be deleted from the archive, which cannot be undone.\n",
                counted(total, "letter")
            )?;
            table(&db.dlq().archived(&filter.limit(SAMPLE.min(total)))?).write(cx.out)?;
            writeln!(cx.out)?;
            return cx.propose(&["--yes"]);
        }
        let batches = Batches {
            noun: "letter",
            progressive: "deleting",
            participle: "deleted",
            total,
            undo: Undo::Hint("deleted letters cannot be restored"),
        };
        let operator = self.selection.operator();
        batches.count("delete", cx, |go_on| {
            let delete = |deleted: u64| go_on(deleted.into());
            db.dlq().delete_archived_while(&filter, &operator, delete)
        })
    }
}
