//! `redrive dlq edit`: changes payloads and keeps their versions.

use clap::ArgGroup;
use redrive::dlq::{Letter, LetterFilter, LetterState};

use super::edit_preview::Preview;
use super::payload_edit::PayloadEdit;
use crate::batches::{Batches, Undo, Watched};
use crate::bulk::{Changed, Found};
use crate::not_done::{NotDone, locked};
use crate::prelude::*;

/// The letters that can be edited: their name and their states.
const NOUN: &str = "open or quarantined letter";
const EDITABLE: [LetterState; 2] = [LetterState::Open, LetterState::Quarantined];

const EDIT: Batches = Batches::of_letters(
    "edit",
    "edited",
    Undo::OfAudit(|audit| format!("undo: {Me} dlq edit audit={audit} --undo --yes")),
);
/// Undoing a restore is a restore too.
const RESTORE: Batches = Batches {
    action: "restore_payload",
    participle: "restored",
    ..EDIT
};

/// Change the payloads of open and quarantined letters
///
/// Without --yes this is a dry run that shows the differences. Letters given by id are changed
/// at once. Every version of a payload is kept, with the operator and the reason.
///
/// A letter that another operator edits at the same moment is skipped, so two concurrent edits do
/// not overwrite each other.
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
        let given = self.change.change.read()?;
        let (selection, filter) = (&self.selection, &self.selection.letters()?);
        let db = &cx.database()?;
        let all = self.find(filter, db)?;
        let (found, is_whole) = match &given {
            Some(given) if selection.is_dry_run() => {
                let mut preview = Preview::of("letter")?;
                db.dlq()
                    .preview_edit(filter, given, |letter| preview.add(letter, cx))?;
                preview.found(all, cx)?
            }
            Some(_) | None => (all, Ending::Done),
        };
        let ending = found.change(
            match given {
                Some(_) => EDIT,
                None => RESTORE,
            },
            selection.to_act(None)?,
            cx,
            |db| self.act(filter, given.as_ref(), db),
            |cx| {
                let is_audited = |condition: &String| condition.starts_with("audit=");
                let why = match filter.conditions().iter().any(is_audited) {
                    true => {
                        ": audit=ID finds only letters that have neither died again nor been \
                         changed since; select the others by id or conditions"
                    }
                    false => "",
                };
                cx.nothing(format!("no {NOUN} matches{why}"))
            },
        )?;
        Ok(ending.and(is_whole))
    }

    /// Counts the letters that can be edited, or whose payloads can be restored.
    fn find(&self, filter: &LetterFilter, db: &Database) -> Result<Found> {
        let editable = db.dlq().count(&filter.within(&EDITABLE))?;
        let note = match self.change.restore {
            Some(version) => format!(", if they have version {version}"),
            None => ", if they have an earlier payload".to_owned(),
        };
        let found = Found::of(editable, NOUN, &self.selection);
        Ok(Found { note, ..found })
    }

    /// Edits the letters or, without an edit, restores their payloads, in batches, until a signal arrives.
    fn act(
        &self,
        filter: &LetterFilter,
        given: Option<&redrive::dlq::Edit>,
        db: &Watched,
    ) -> Result<Changed> {
        let (operator, version) = (self.selection.operator(), self.change.restore);
        let dlq = db.dlq();
        let done = match given {
            Some(given) => dlq.edit(filter, given, &operator),
            None => dlq.restore_versions(filter, version, &operator),
        }?;
        let why = |letter: &Letter| match version {
            None if given.is_none() && letter.edits == 0 => {
                ("version", "it has no earlier payload".to_owned())
            }
            Some(version) if version >= letter.edits => {
                ("version", format!("it has no version {version}"))
            }
            None | Some(_) => locked(),
        };
        Ok(Changed {
            not_done: NotDone::letters(&done.skipped, &EDITABLE, why, db),
            edited: Some(done),
            ..Changed::default()
        })
    }
}
