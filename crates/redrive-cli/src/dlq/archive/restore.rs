//! `redrive dlq archive restore`: moves archived letters back.

use redrive::dlq::{LetterFilter, NotRestored, Restored};

use super::{not_taken, nothing_matched};
use crate::batches::{Batches, SoFar, Undo};
use crate::dlq::not_done::NotDone;
use crate::dry_run::DryRun;
use crate::left_out::LeftOut;
use crate::prelude::*;

/// Move archived letters back, with their ids, history and counts
///
/// Without --yes this is a dry run. Letters given by id are restored at once. A restored letter is
/// open, or quarantined if it was. A letter stays in the archive if another letter has its id or
/// its source and position, or if a live job holds its unique key. It does not hold its group again.
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

impl RestoreArchived {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let filter = self.selection.letters()?;
        match self.selection.is_dry_run() {
            true => self.preview(&filter, cx),
            false => self.restore(&filter, cx),
        }
    }

    fn preview(&self, filter: &LetterFilter, cx: &mut Context<'_>) -> Result<Ending> {
        let preview = cx.database()?.dlq().preview_restore(filter)?;
        let (restorable, left) = (preview.letters.len() as u64, &preview.left);
        let left_out = NotRestored::ALL.into_iter().filter_map(|reason| {
            let same = left.iter().filter(|(_, why)| *why == reason);
            LeftOut::of(same.count() as u64, reason.as_str(), because(reason))
        });
        let dry_run = DryRun {
            matching: restorable + left.len() as u64,
            left_out: &left_out.collect::<Vec<_>>(),
            ..DryRun::of_letters("restore", restorable, self.selection.to_act())
        };
        let heading = format!("{} would be restored.", counted(restorable, "letter"));
        dry_run.show(&heading, || Ok(None), cx)?;
        match dry_run.matching {
            0 => Ok(nothing_matched(filter, cx)),
            _ => Ok(Ending::Done),
        }
    }

    /// Restores letters in batches, until a signal arrives.
    fn restore(&self, filter: &LetterFilter, cx: &mut Context<'_>) -> Result<Ending> {
        let db = &cx.database()?;
        let batches = Batches {
            noun: "letter",
            action: "restore",
            progressive: "restoring",
            participle: "restored",
            undo: Undo::OfAudit(|audit| {
                format!("the restored letters: redrive dlq list audit={audit} --state any")
            }),
        };
        let mut so_far = Restored::default();
        let ended = batches.run(
            self.selection.limited(db.dlq().count_archived(filter)?),
            cx,
            |go_on| {
                db.dlq()
                    .restore_while(filter, &self.selection.operator(), |restored| {
                        so_far = restored.clone();
                        let done = SoFar::of(restored.letters.len(), restored.audit);
                        go_on(done.and_unchanged(restored.left.len() as u64))
                    })
            },
        )?;
        let done = ended.so_far.done;
        let left = so_far.left.iter();
        let left = left.map(|(id, why)| (*id, (why.as_str(), because(*why).to_owned())));
        let mut not_done = NotDone(left.collect());
        let mut rest = self.selection.ids();
        rest.retain(|id| {
            !so_far.letters.contains(id) && !so_far.left.iter().any(|(left, _)| left == id)
        });
        not_done.0.extend(not_taken(&rest, db).0);
        let line = batches.line(done, not_done.json("letters"), so_far.audit);
        if cx.global.json {
            json_line(cx.out, &line)?;
        } else if done > 0 || !not_done.0.is_empty() {
            writeln!(cx.out, "{}", batches.text(done))?;
        }
        not_done.say("letter", batches.participle, cx);
        let ending = ended.or_stopped(Ending::of(not_done.0.is_empty()), cx)?;
        match ending == Ending::Done && done == 0 {
            true => Ok(nothing_matched(filter, cx)),
            false => Ok(ending),
        }
    }
}

/// Why a letter stays in the archive.
fn because(reason: NotRestored) -> &'static str {
    match reason {
        NotRestored::IdTaken => "another letter has the id",
        NotRestored::PositionTaken => "the failure was captured again",
        NotRestored::KeyTaken => "a live job holds the unique key",
        _ => reason.as_str(),
    }
}
