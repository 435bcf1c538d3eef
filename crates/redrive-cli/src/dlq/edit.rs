//! `redrive dlq edit`: changes payloads and keeps their versions.

use std::collections::BTreeSet;

use clap::ArgGroup;
use redrive::JobId;
use redrive::dlq::{LetterFilter, LetterState};

use super::edit_preview::Preview;
use super::payload_edit::{GivenEdit, PayloadEdit};
use crate::batches::{Batches, Undo, Watched};
use crate::bulk::{Change, Changed, Found};
use crate::not_done::{NotDone, locked};
use crate::prelude::*;

/// Why an edit or a restore changed nothing.
const NONE_EDITABLE: &str = "no open or quarantined letter matches";

/// The states of the letters that can be edited.
const EDITABLE: [LetterState; 2] = [LetterState::Open, LetterState::Quarantined];

const EDIT: Batches = Batches {
    noun: "letter",
    action: "edit",
    progressive: "editing",
    participle: "edited",
    undo: Undo::OfAudit(|audit| format!("undo: {Me} dlq edit audit={audit} --undo --yes")),
};
/// Undoing a restore is a restore too.
const RESTORE: Batches = Batches {
    action: "restore_payload",
    progressive: "restoring",
    participle: "restored",
    ..EDIT
};

/// Change the payloads of open and quarantined letters
///
/// Without --yes this is a dry run that shows the differences. Letters given by id are changed
/// at once. Every version of a payload is kept, with the operator and the reason.
///
/// A patch applies to the payload at that moment, so two concurrent edits do not overwrite each
/// other.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("how").required(true)),
    before_help = "\
Examples:
  redrive dlq edit orders kind=order.placed --merge '{\"currency\": \"EUR\"}'
  redrive dlq edit orders --merge '{\"currency\": \"EUR\"}' --reason 'bug 812' --yes
  redrive dlq edit 42 --patch '[{\"op\": \"remove\", \"path\": \"/items/3\"}]'
  redrive dlq edit 42 --set @fixed.json --reason 'the payload was truncated'
  redrive dlq edit orders --exec \"jq -c '.currency |= ascii_upcase'\" --yes
  redrive dlq edit 42 --undo
  redrive dlq edit audit=414 --undo --yes
",
    after_help = "\
The condition audit=ID with --undo undoes one edit as a whole; `redrive audit
--verb edit` prints the ids. Ctrl-C stops after the current batch of 100 letters,
or after the current command, and prints how to undo what was done. The exit code
is 1 then, and if a letter could not be changed or none matches."
)]
pub(super) struct Edit {
    #[command(flatten)]
    selection: Bulk,
    #[command(flatten)]
    change: EditArgs,
}

/// The edit. Exactly one of these is required.
#[derive(Args, Debug)]
#[command(next_help_heading = "Edit (one of these)")]
#[group(skip)]
struct EditArgs {
    #[command(flatten)]
    change: PayloadEdit,
    /// Restore the payload before the last edit, as a new version.
    #[arg(long, group = "how")]
    undo: bool,
    /// Restore this version; 0 is the payload that died.
    #[arg(long, value_name = "VERSION", group = "how")]
    restore: Option<u32>,
}

impl Edit {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let (edit, filter) = (self.change.change.read()?, self.selection.letters()?);
        match &edit {
            None => self.restore(&filter, cx),
            Some(edit) if self.selection.is_dry_run() => self.preview(&filter, edit, cx),
            Some(edit) => self.edit(&filter, edit, cx),
        }
    }

    /// Shows what the edit would change.
    fn preview(
        &self,
        filter: &LetterFilter,
        given: &GivenEdit,
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        let db = &cx.database()?;
        let mut preview = Preview::of("letter", given)?;
        db.dlq()
            .preview_edit(filter, &given.edit, |letter| preview.add(letter, cx))?;
        let to_act = self.selection.to_act(false).unwrap_or_default();
        preview.end(NONE_EDITABLE, &to_act, cx)
    }

    /// Edits the letters in batches, until a signal arrives.
    fn edit(
        &self,
        filter: &LetterFilter,
        given: &GivenEdit,
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        let db = &cx.database()?;
        let letters = self.editable(filter, db)?;
        let act = |db: &Watched| -> Result<Changed> {
            given.end_at_signal()?;
            let operator = self.selection.operator();
            let done = db.dlq().edit(filter, &given.edit, &operator)?;
            Ok(Changed {
                not_done: NotDone::letters(&done.skipped, &EDITABLE, |_| locked(), db),
                edited: Some(done),
                ..Changed::default()
            })
        };
        Change {
            batches: EDIT,
            to_act: None,
            found: Found::all(letters, ""),
            act,
            none: |cx: &mut Context<'_>| cx.nothing(NONE_EDITABLE),
        }
        .run(cx)
    }

    /// Counts the letters that can be edited.
    fn editable(&self, filter: &LetterFilter, db: &Database) -> Result<u64> {
        let count = db.dlq().count(&filter.within(&EDITABLE))?;
        Ok(self.selection.limited(count.letters))
    }

    /// Restores the payloads of matching letters.
    fn restore(&self, filter: &LetterFilter, cx: &mut Context<'_>) -> Result<Ending> {
        let (selection, db) = (&self.selection, &cx.database()?);
        let would = match self.change.restore {
            Some(version) => format!("version {version} of their payload"),
            None => "their payload before the last edit".to_owned(),
        };
        let letters = self.editable(filter, db)?;
        Change {
            batches: RESTORE,
            to_act: selection.to_act(false),
            found: Found::all(letters, &format!("would get {would}, if they have one.")),
            act: |db: &Watched| self.restore_all(filter, letters, db),
            none: |cx: &mut Context<'_>| {
                let is_audited = |condition: &String| condition.starts_with("audit=");
                let why = match filter.conditions().iter().any(is_audited) {
                    true => {
                        ": audit=ID finds only letters that have neither died again nor been \
                         changed since; select the others by id or conditions"
                    }
                    false => "",
                };
                cx.nothing(format!("{NONE_EDITABLE}{why}"))
            },
        }
        .run(cx)
    }

    /// Restores the payloads of letters, of which so many match, and finds out why others did not change.
    fn restore_all(
        &self,
        filter: &LetterFilter,
        letters: u64,
        db: &Watched,
    ) -> redrive::Result<Changed> {
        let editable = filter.within(&EDITABLE);
        let (version, operator) = (self.change.restore, self.selection.operator());
        let dlq = db.dlq();
        let done = dlq.restore_versions(&editable, version, &operator)?;
        let restored: BTreeSet<JobId> = done.letters.into_iter().collect();
        let missing = letters.saturating_sub(restored.len() as u64);
        if missing > 0 && db.is_stopped() {
            return Ok(Changed::default());
        }
        let mut left = Vec::new();
        if missing > 0 {
            dlq.for_each(&editable.limit(letters), |letter| -> redrive::Result<()> {
                let why = match version {
                    None if letter.edits == 0 => {
                        ("version", "it has no earlier payload".to_owned())
                    }
                    Some(version) if version >= letter.edits => {
                        ("version", format!("it has no version {version}"))
                    }
                    None | Some(_) => locked(),
                };
                left.extend((!restored.contains(&letter.id)).then_some((letter.id, why)));
                Ok(())
            })?;
        }
        // Restored letters may no longer match, and then others follow within the limit.
        left.truncate(usize::try_from(missing).unwrap_or(usize::MAX));
        let mut rest = self.selection.ids();
        rest.retain(|id| !restored.contains(id) && left.iter().all(|(other, _)| other != id));
        left.extend(NotDone::letters(&rest, &EDITABLE, |_| locked(), db).0);
        Ok(NotDone(left).into())
    }
}
