//! `redrive dlq archive restore` and `redrive dlq archive delete`.

use redrive::JobId;

use super::{not_archived, nothing_matched};
use crate::batches::{Batches, Undo, Watched};
use crate::bulk::{Changed, Found, SAMPLE};
use crate::dlq::letter_table::letter_table;
use crate::not_done::{NotDone, Why};
use crate::prelude::*;

/// Move archived letters back, with their ids, history and counts
///
/// Without --yes this is a dry run. Letters given by id are restored at once. A restored letter is
/// open, or quarantined if it was. A letter stays in the archive if another letter has its id or
/// its source and position. It does not hold its group again.
#[derive(Args, Debug)]
#[command(
    before_help = "\
Examples:
  redrive dlq archive restore orders class=Timeout
  redrive dlq archive restore 42 --reason 'the customer asked again'
",
    after_help = "\
Ctrl-C stops after the current batch of 500 letters. The exit code is 1 then, if a
letter stays in the archive, and if nothing matches."
)]
pub(crate) struct RestoreArchived {
    #[command(flatten)]
    selection: Bulk,
}

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

const RESTORE: Batches = Batches::of_letters(
    "restore",
    "restored",
    Undo::OfAudit(|audit| format!("the restored letters: {Me} dlq list audit={audit} state=any")),
);

const DELETE: Batches = Batches::of_letters(
    "delete",
    "deleted",
    Undo::Hint("deleted letters cannot be restored"),
);

/// What a dry run says of the letters.
const ARCHIVED: &str = "archived letter";

impl RestoreArchived {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let (selection, db) = (&self.selection, &cx.database()?);
        let filter = &selection.letters()?;
        let found = Found::of(db.dlq().count_archived(filter)?, ARCHIVED, selection);
        let most = found.affected;
        let act = |db: &Watched| -> redrive::Result<Changed> {
            let done = db.dlq().restore(filter, &selection.operator())?;
            let tried = (done.letters.len() + done.left.len()) as u64;
            let mut rest = selection.ids();
            rest.retain(|id| !done.letters.contains(id) && !done.left.contains(id));
            if db.is_stopped() && tried < most {
                rest.clear();
            }
            let taken = (
                "taken",
                "another letter has its id or its position".to_owned(),
            );
            let left = done.left.iter().map(|id| (*id, taken.clone()));
            Ok(NotDone(left.chain(not_archived(&rest)).collect()).into())
        };
        found.change(RESTORE, selection.to_act(None)?, cx, act, |cx| {
            nothing_matched(filter, cx)
        })
    }
}

impl DeleteArchived {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let (selection, db) = (&self.selection, &cx.database()?);
        let filter = &selection.letters()?;
        let mut found = Found {
            note: ", which cannot be undone".to_owned(),
            ..Found::of(db.dlq().count_archived(filter)?, ARCHIVED, selection)
        };
        let act = |db: &Watched| -> redrive::Result<Changed> {
            let mut rest = selection.ids();
            let found = match rest.is_empty() {
                true => Vec::new(),
                false => db.dlq().archived(filter)?,
            };
            rest.retain(|id| found.iter().all(|archived| archived.id != *id));
            let mut not_done: Vec<(JobId, Why)> = not_archived(&rest).collect();
            let deleted = db.dlq().delete_archived(filter, &selection.operator())?;
            if deleted < found.len() as u64 {
                for archived in &found {
                    let id = archived.id;
                    let restored = db.dlq().get(id)?;
                    let why = restored.map(|_| ("restored", "it was restored".to_owned()));
                    not_done.extend(why.map(|why| (id, why)));
                }
            }
            Ok(NotDone(not_done).into())
        };
        if !selection.confirm.yes {
            let some = filter.clone().limit(u64::from(SAMPLE).min(found.affected));
            found.sample = Some(letter_table(&db.dlq().archived(&some)?));
        }
        found.change(
            DELETE,
            (!selection.confirm.yes).then(|| vec![selection.confirm.to_act()]),
            cx,
            act,
            |cx| nothing_matched(filter, cx),
        )
    }
}
