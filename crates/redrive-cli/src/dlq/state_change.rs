//! `redrive dlq discard` and `redrive dlq reopen`: move letters into another state.

use redrive::Operator;
use redrive::dlq::{Changed as ChangedLetters, Dlq, LetterFilter, LetterState};

use super::letter_table::letter_table;
use super::none_matched::{none_of, words};
use crate::batches::{Batches, Undo, Watched};
use crate::bulk::{Changed, Found, SAMPLE};
use crate::not_done::{NotDone, locked};
use crate::prelude::*;

/// How many letters that a bulk command passed over are named.
const MAX_SKIPPED: u64 = 10_000;

/// Letters to move into another state.
#[derive(Args, Debug)]
#[group(skip)]
pub(super) struct MoveLetters {
    #[command(flatten)]
    selection: Bulk,
}

/// A move into another state.
pub(super) struct Move {
    batches: Batches,
    /// The states of the letters that it takes.
    takes: &'static [LetterState],
    /// What needs a reason, if it does.
    needs_reason: Option<&'static str>,
    /// The call that moves letters.
    change: fn(Dlq<'_>, &LetterFilter, &Operator) -> redrive::Result<ChangedLetters>,
}

pub(super) const DISCARD: Move = Move {
    batches: Batches::of_letters(
        "discard",
        "discarded",
        Undo::OfAudit(|audit| format!("undo: {Me} dlq reopen audit={audit} --yes")),
    ),
    takes: &[LetterState::Open, LetterState::Quarantined],
    needs_reason: Some("discarding"),
    change: |dlq, filter, operator| dlq.discard(filter, operator),
};

pub(super) const REOPEN: Move = Move {
    batches: Batches::of_letters(
        "reopen",
        "reopened",
        Undo::OfAudit(|audit| format!("undo: {Me} dlq discard audit={audit} --reason TEXT --yes")),
    ),
    takes: &[LetterState::Discarded],
    needs_reason: None,
    change: |dlq, filter, operator| dlq.reopen(filter, operator),
};

impl MoveLetters {
    pub(super) fn run(&self, by: &Move, cx: &mut Context<'_>) -> Result<Ending> {
        let selection = &self.selection;
        let to_act = selection.to_act(by.needs_reason)?;
        let db = &cx.database()?;
        let letters = selection.letters()?;
        let taken = &letters.within(by.takes);
        let states = words(&taken.named_states().unwrap_or_default());
        let matches = db.dlq().count(taken)?;
        let found = Found::of(matches, format!("{states} letter"), selection);
        let affected = found.affected;
        let shown = taken.clone().limit(affected.min(SAMPLE.into()));
        let sample = match selection.is_dry_run() {
            true => Some(letter_table(&db.dlq().oldest(&shown)?)),
            false => None,
        };
        let found = Found { sample, ..found };
        found.change(
            by.batches,
            to_act,
            cx,
            |db| by.act(taken, affected, selection, db),
            |cx| none_of(by.takes, selection, &letters, None, cx),
        )
    }
}

impl Move {
    /// Moves the letters that are taken, and finds out which it passed over.
    fn act(
        &self,
        taken: &LetterFilter,
        most: u64,
        selection: &Bulk,
        db: &Watched,
    ) -> redrive::Result<Changed> {
        let operator = selection.operator();
        // As many as match now, so that letters that die meanwhile cannot prolong the command.
        let some = taken.clone().limit(most);
        let changed = (self.change)(db.dlq(), &some, &operator)?;
        let done = changed.ids.len() as u64;
        let missing = most.saturating_sub(done).min(MAX_SKIPPED);
        if missing > 0 && db.is_stopped() {
            return Ok(Changed::default());
        }
        let mut rest = selection.ids();
        rest.retain(|id| !changed.ids.contains(id));
        // A batch passes over letters that another session has locked.
        if missing > 0 && selection.ids().is_empty() {
            let passed = db.dlq().list(&taken.clone().limit(missing))?;
            rest.extend(passed.iter().map(|letter| letter.id));
        }
        Ok(NotDone::letters(&rest, self.takes, |_| locked(), db).into())
    }
}
