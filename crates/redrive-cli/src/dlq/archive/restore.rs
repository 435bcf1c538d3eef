//! `redrive dlq archive restore`: moves archived letters back.

use redrive::JobId;
use redrive::dlq::{LetterFilter, NotRestored, Restored};

use super::nothing_matched;
use crate::batches::{Batches, SoFar, Undo};
use crate::dlq::not_done::skipped_json;
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
        let db = &cx.database()?;
        let preview = db.dlq().preview_restore(filter)?;
        let restorable = preview.letters.len() as u64;
        if cx.global.json {
            json_line(
                cx.out,
                &json!({
                    "dry_run": true,
                    "action": "restore",
                    "letters": restorable,
                    "matching": restorable + preview.left.len() as u64,
                    "skipped": skipped_json("letters", left_reasons(&preview)),
                }),
            )?;
        }
        if restorable == 0 && preview.left.is_empty() {
            return Ok(nothing_matched(filter, cx));
        }
        if cx.global.json {
            return Ok(Ending::Done);
        }
        writeln!(
            cx.out,
            "{} would be restored.",
            counted(restorable, "letter")
        )?;
        for line in left_lines(&preview) {
            writeln!(cx.out, "{line}")?;
        }
        if restorable > 0 {
            cx.propose(&self.selection.to_act())?;
        }
        Ok(Ending::Done)
    }

    /// Restores letters in batches, until a signal arrives.
    fn restore(&self, filter: &LetterFilter, cx: &mut Context<'_>) -> Result<Ending> {
        let db = &cx.database()?;
        let batches = Batches {
            noun: "letter",
            progressive: "restoring",
            participle: "restored",
            total: self.selection.limited(db.dlq().count_archived(filter)?),
            undo: Undo::OfAudit(|audit| {
                format!("the restored letters: redrive dlq list audit={audit} --state any")
            }),
        };
        let mut so_far = Restored::default();
        let ended = batches.run(cx, |go_on| {
            db.dlq()
                .restore_while(filter, &self.selection.operator(), |restored| {
                    so_far = restored.clone();
                    let done = SoFar::of(restored.letters.len(), restored.audit);
                    go_on(done.and_unchanged(restored.left.len() as u64))
                })
        })?;
        let done = ended.so_far.done;
        let ids = self.selection.ids().into_iter();
        let missing: Vec<JobId> = ids
            .filter(|id| {
                !so_far.letters.contains(id) && !so_far.left.iter().any(|(left, _)| left == id)
            })
            .collect();
        if cx.global.json {
            let missing = missing.iter().map(|id| (*id, "gone"));
            json_line(
                cx.out,
                &json!({
                    "action": "restore",
                    "dry_run": false,
                    "letters": done,
                    "skipped": skipped_json("letters", left_reasons(&so_far).chain(missing)),
                    "audit": so_far.audit,
                }),
            )?;
        } else if done > 0 || !so_far.left.is_empty() {
            writeln!(cx.out, "{} restored", counted(done, "letter"))?;
        }
        for line in left_lines(&so_far) {
            cx.say(line);
        }
        if ended.or_stopped(Ending::Done, cx)? == Ending::NothingMatched {
            return Ok(Ending::NothingMatched);
        }
        if !missing.is_empty() {
            let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
            cx.say(format!("not in the archive: {}", missing.join(", ")));
        } else if done == 0 && so_far.left.is_empty() {
            return Ok(nothing_matched(filter, cx));
        }
        Ok(Ending::of(so_far.left.is_empty() && missing.is_empty()))
    }
}

/// The letters that stay, each with the reason in one word.
fn left_reasons(restored: &Restored) -> impl Iterator<Item = (JobId, &'static str)> {
    let left = restored.left.iter();
    left.map(|(id, reason)| (*id, reason.as_str()))
}

/// One line for each reason, with an example.
fn left_lines(restored: &Restored) -> Vec<String> {
    let line = |reason: NotRestored| {
        let (example, _) = restored.left.iter().find(|(_, why)| *why == reason)?;
        let because = match reason {
            NotRestored::IdTaken => "another letter has the id",
            NotRestored::PositionTaken => "the failure was captured again",
            NotRestored::KeyTaken => "a live job holds the unique key",
            _ => reason.as_str(),
        };
        let same = restored.left.iter().filter(|(_, why)| *why == reason);
        let letters = same.count() as u64;
        let stay = if letters == 1 { "stays" } else { "stay" };
        Some(format!(
            "{} {stay} in the archive, because {because}; for example {example}",
            counted(letters, "letter")
        ))
    };
    NotRestored::ALL.into_iter().filter_map(line).collect()
}
