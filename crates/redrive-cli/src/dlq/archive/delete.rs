//! `redrive dlq archive delete`: deletes archived letters.

use clap::Args;
use serde_json::json;

use super::{nothing_matched, table};
use crate::batches::Batches;
use crate::context::{Context, Ending};
use crate::error::Result;
use crate::selection::Bulk;
use crate::terminal::{counted, json_line};

/// How many letters a dry run shows.
const SAMPLE: u64 = 5;

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
        if total == 0 || cx.global.json && !self.selection.is_confirmed() {
            if cx.global.json {
                let mut line = json!({ "action": "delete", "letters": total });
                if !self.selection.is_confirmed() {
                    line["dry_run"] = true.into();
                }
                json_line(cx.out, &line)?;
            }
            return match total {
                0 => Ok(nothing_matched(&filter, cx)),
                _ => Ok(Ending::Done),
            };
        }
        if !self.selection.is_confirmed() {
            let total_text = counted(total, "letter");
            writeln!(
                cx.out,
                "{total_text} would be deleted from the archive, which cannot be undone.\n"
            )?;
            table(&db.dlq().archived(&filter.limit(SAMPLE.min(total)))?).write(cx.out)?;
            writeln!(cx.out)?;
            let command = "redrive dlq archive delete";
            let command = self
                .selection
                .command_line(command, self.selection.reason(), &[]);
            return cx.propose(&command);
        }
        let delete = Batches {
            action: "delete",
            progressive: "deleting",
            participle: "deleted",
            noun: "letter",
            total,
            undo: "deleted letters cannot be restored",
        };
        let operator = self.selection.operator();
        delete.run(cx, |go_on| {
            db.dlq().delete_archived_while(&filter, &operator, go_on)
        })
    }
}
