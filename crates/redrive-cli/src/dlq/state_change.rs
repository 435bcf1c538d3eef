//! `redrive dlq discard` and `redrive dlq reopen`: move letters into another state.

use std::ops::ControlFlow;

use redrive::Operator;
use redrive::dlq::{Changed as ChangedLetters, Dlq, LetterFilter, LetterState};

use super::filter::count;
use super::letter_table::letter_sample;
use super::none_matched::{Again, NoneMatched, words};
use crate::batches::{Batches, GoOn, SoFar, Undo};
use crate::bulk::{self, Change, Changed, Found};
use crate::left_out::{LeftOut, matching};
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
    /// The states of the letters that it takes. The first is the default.
    takes: &'static [LetterState],
    /// What needs a reason, if it does.
    needs_reason: Option<&'static str>,
    change: MoveWhile,
}

/// The call that moves letters.
type MoveWhile = fn(
    Dlq<'_>,
    &LetterFilter,
    &Operator,
    &mut dyn FnMut(&ChangedLetters) -> ControlFlow<()>,
) -> redrive::Result<ChangedLetters>;

pub(super) const DISCARD: Move = Move {
    batches: Batches {
        noun: "letter",
        action: "discard",
        progressive: "discarding",
        participle: "discarded",
        undo: Undo::OfAudit(|audit| format!("undo: {Me} dlq reopen audit={audit} --yes")),
    },
    takes: &[LetterState::Open, LetterState::Quarantined],
    needs_reason: Some("discarding"),
    change: |dlq, filter, operator, go_on| dlq.discard_while(filter, operator, go_on),
};

pub(super) const REOPEN: Move = Move {
    batches: Batches {
        noun: "letter",
        action: "reopen",
        progressive: "reopening",
        participle: "reopened",
        undo: Undo::OfAudit(|audit| {
            format!(
                "undo: {Me} dlq discard audit={audit} state=open,quarantined --reason TEXT --yes"
            )
        }),
    },
    takes: &[LetterState::Discarded],
    needs_reason: None,
    change: |dlq, filter, operator, go_on| dlq.reopen_while(filter, operator, go_on),
};

impl MoveLetters {
    pub(super) fn run(&self, by: &Move, cx: &mut Context<'_>) -> Result<Ending> {
        if let Some(what) = by.needs_reason {
            self.selection.check_reason(what)?;
        }
        let letters = self.selection.letters()?;
        // Letters given by id may have any state that it takes.
        let mut states = match (letters.named_states(), self.selection.ids().is_empty()) {
            (Some(named), _) => named,
            (None, true) => vec![by.takes[0]],
            (None, false) => by.takes.to_vec(),
        };
        states.retain(|state| by.takes.contains(state));
        let taken = (!states.is_empty()).then(|| letters.clone().states(states.clone()));
        let moving = Moving {
            by,
            selection: &self.selection,
            letters,
            states,
            taken,
        };
        bulk::run(&moving, cx)
    }
}

/// A move of selected letters.
struct Moving<'a> {
    by: &'a Move,
    selection: &'a Bulk,
    letters: LetterFilter,
    /// The states from which they are taken.
    states: Vec<LetterState>,
    /// The letters that are taken; `None`: the conditions exclude them all.
    taken: Option<LetterFilter>,
}

impl Moving<'_> {
    /// The matching letters that are left out because of their state.
    fn left_out(&self, db: &Database) -> Result<Vec<LeftOut>> {
        let named = self.letters.named_states();
        let mut lines = Vec::new();
        for state in named.unwrap_or_else(|| self.by.takes.to_vec()) {
            if self.states.contains(&state) {
                continue;
            }
            let letters = db.dlq().count(&self.letters.clone().state(state))?.letters;
            let include = "the condition state=open,quarantined includes them";
            let is_taken = self.by.takes.contains(&state);
            lines.extend(
                LeftOut::of(letters, state.as_str(), state.as_str()).map(|line| LeftOut {
                    state: Some(state.as_str()),
                    include: is_taken.then(|| include.to_owned()),
                    ..line
                }),
            );
        }
        Ok(lines)
    }
}

impl Change for Moving<'_> {
    fn batches(&self) -> &Batches {
        &self.by.batches
    }

    fn to_act(&self) -> Option<Vec<&'static str>> {
        let selection = self.selection;
        selection.is_dry_run().then(|| match self.by.needs_reason {
            Some(_) => selection.to_act_with_reason(),
            None => selection.to_act(),
        })
    }

    fn find(&self, db: &Database) -> Result<Found> {
        let letters = count(self.taken.as_ref(), db)?;
        let affected = self.selection.limited(letters);
        let heading = format!(
            "{}; {} would be {}.",
            matching(letters, &format!("{} letter", words(&self.states))),
            grouped(affected),
            self.by.batches.participle
        );
        let left_out = match self.selection.is_dry_run() {
            true => self.left_out(db)?,
            false => Vec::new(),
        };
        Ok(Found {
            matching: letters,
            affected,
            left_out,
            heading,
        })
    }

    fn sample(&self, found: &Found, db: &Database) -> Result<Option<Table>> {
        let taken = self.taken.as_ref();
        taken
            .map(|taken| letter_sample(taken, found.affected, |_| true, db))
            .transpose()
    }

    fn act(&self, found: &Found, go_on: GoOn<'_>, db: &Database) -> redrive::Result<Changed> {
        let operator = self.selection.operator();
        let (mut changed, mut course) = (ChangedLetters::default(), ControlFlow::Continue(()));
        if let Some(taken) = &self.taken {
            // As many as match now, so that letters that die meanwhile cannot prolong the command.
            let some = taken.clone().limit(found.affected);
            changed = (self.by.change)(db.dlq(), &some, &operator, &mut |so_far| {
                course = go_on(SoFar::of(so_far.letters.len(), so_far.audit));
                course
            })?;
        }
        let (done, mut rest) = (changed.letters.len() as u64, self.selection.ids());
        rest.retain(|id| !changed.letters.contains(id));
        let taken = self.taken.as_ref();
        if !rest.is_empty() {
            let left = self.selection.left(done);
            return Ok(NotDone::letters(&rest, self.by.takes, taken, left, db).into());
        }
        // A batch passes over letters that another session has locked.
        let missing = found.affected.saturating_sub(done).min(MAX_SKIPPED);
        let passed = match taken.filter(|_| missing > 0 && course.is_continue()) {
            Some(taken) => db.dlq().list(&taken.clone().limit(missing))?,
            None => Vec::new(),
        };
        let passed = passed.iter().map(|letter| (letter.id, locked()));
        Ok(NotDone(passed.collect()).into())
    }

    fn none(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let mut none = NoneMatched::of(self.selection.queue(), &self.letters, &self.states);
        if self.states.is_empty() {
            let participle = self.by.batches.participle;
            none.what = format!("no letter in these states can be {participle}");
        }
        if self.by.takes.contains(&LetterState::Quarantined) {
            let reason = self.selection.missing_reason();
            none.again =
                Again::Quarantined(["state=quarantined"].into_iter().chain(reason).collect());
        }
        none.say(cx)
    }
}
