//! `redrive erase`: erases everything about a person or tenant.

use redrive::dlq::{Erasure, LetterFilter};

use crate::batches::{Batches, Undo};
use crate::prelude::*;
use crate::selection::WORDS;

/// Erase everything about a person or tenant: jobs, letters and their traces
///
/// Without --yes this is a dry run. The conditions select by payload or id, and perhaps by queue and
/// kind. Waiting jobs, letters with their versions, and archived letters are deleted. Details of
/// their failure groups, titles of those that have no other letter, and conditions in the audit log
/// and in ended runs that name the values, become `[erased]`. The audit log keeps who erased, when
/// and how much, but not the conditions. This cannot be undone. Do not name the person in the reason.
#[derive(Args, Debug)]
#[command(
    mut_arg(WORDS, |words| words.required(true)),
    before_help = "\
Examples:
  redrive erase payload.tenant=42
  redrive erase payload.tenant=42 --reason 'request 1207' --yes
  redrive erase 42 43 --yes
",
    after_help = "\
Leased jobs stay, with their letters. Repeat the command once they have ended, or cancel
them with `redrive job cancel`. Captured bytes that are not JSON match only by id. The
conditions of policies, the payloads of schedules, and notes and reasons of operators do
not change. Ctrl-C stops after the current
batch; repeat the command for the rest. The exit code is 1 then, if a leased job stays, and
if nothing matches."
)]
pub(crate) struct Erase {
    #[command(flatten)]
    words: Words,
    #[command(flatten)]
    confirm: Confirm,
}

impl Erase {
    pub(crate) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let filter = self.words.letters()?;
        let db = cx.database()?;
        let found = db.dlq().erasable(&filter)?;
        if self.confirm.yes {
            return self.erase(&filter, &found, cx);
        }
        let ending = show(&found, true, cx)?;
        if ending == Ending::Done && !cx.global.json {
            writeln!(cx.out, "\nThis cannot be undone.")?;
            cx.propose(&[self.confirm.to_act()])?;
        }
        Ok(ending)
    }

    /// Erases in batches, until a signal arrives.
    fn erase(
        &self,
        filter: &LetterFilter,
        found: &Erasure,
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        let operator = self.confirm.reason.operator();
        let batches = Batches {
            noun: "row",
            action: "erase",
            participle: "erased",
            undo: Undo::Hint("repeat the command for the rest"),
        };
        let ended = batches.run(found.rows(), cx, |db| db.dlq().erase(filter, &operator))?;
        // A claim may have taken more jobs.
        let left = cx.database()?.dlq().erasable(filter);
        let mut erased = ended.result;
        erased.leased = left.as_ref().map_or(erased.leased, |left| left.leased);
        let shown = show(&erased, false, cx)?;
        ended.or_stopped(shown.and(Ending::of(left?.leased == 0)), cx)
    }
}

/// Prints what an erasure covers, or that it covers nothing.
fn show(erasure: &Erasure, is_dry_run: bool, cx: &mut Context<'_>) -> Result<Ending> {
    let is_empty = erasure.is_empty() && erasure.leased == 0;
    let heading = match is_dry_run {
        true => "WOULD ERASE",
        false => "ERASED",
    };
    let entries = [
        ("waiting jobs", erasure.jobs),
        ("letters", erasure.letters),
        ("earlier payloads of other letters", erasure.versions),
        ("archived letters", erasure.archived),
        ("conditions in the audit log", erasure.audit),
        ("conditions of ended runs", erasure.runs),
    ];
    let table = table!((place, entries) in entries => {
        Word "PLACE" => place,
        Number heading => grouped(entries),
    });
    if cx.global.json {
        let skipped = match erasure.leased {
            0 => json!([]),
            jobs => json!([{ "reason": "leased", "jobs": jobs }]),
        };
        let line = json!(object!(erasure =>
            action = "erase", dry_run = is_dry_run, jobs, letters, versions, archived,
            audit_records = erasure.audit, runs, skipped = skipped,
        ));
        json_line(cx.out, &line)?;
    } else if !is_empty {
        table.write(cx.out)?;
    }
    if erasure.leased > 0 && !cx.global.json {
        let jobs = counted(erasure.leased, "running job");
        writeln!(
            cx.out,
            "\n{jobs} not erased: repeat the command once they have ended, or cancel them"
        )?;
    }
    match is_empty {
        true => cx.nothing("nothing matches"),
        false => Ok(Ending::Done),
    }
}
