//! Shared by `discard` and `reopen`: moves letters into another state, and says how to undo it.

use std::ops::ControlFlow;

use redrive::Operator;
use redrive::dlq::{Changed, Dlq, LetterFilter, LetterState};

use super::letter_table::letter_table;
use super::none_matched::{NoneMatched, words};
use super::not_done::{NotDone, locked};
use crate::batches::{Batches, SoFar};
use crate::dry_run::{DryRun, first_letters};
use crate::left_out::{LeftOut, matching};
use crate::prelude::*;

/// How many letters that a bulk command passed over are named.
const MAX_SKIPPED: u64 = 10_000;

/// Called after each batch with all letters changed so far.
pub(super) type GoOn<'a> = &'a mut dyn FnMut(&Changed) -> ControlFlow<()>;

/// A command that moves letters into another state.
pub(super) struct StateChange<'a> {
    pub(super) batches: Batches,
    /// The words that make a dry run act.
    pub(super) to_act: Vec<&'static str>,
    /// The states of the letters that it takes. The first is the default.
    pub(super) takes: &'static [LetterState],
    /// The call that changes letters.
    pub(super) change: fn(Dlq<'_>, &LetterFilter, &Operator, GoOn<'_>) -> redrive::Result<Changed>,
    /// The command that takes quarantined letters with these conditions.
    pub(super) quarantined: &'a dyn Fn(&str) -> String,
}

impl StateChange<'_> {
    /// Shows what would change, or changes it.
    pub(super) fn run(&self, selection: &Bulk, cx: &mut Context<'_>) -> Result<Ending> {
        match (selection.is_dry_run(), selection.ids().is_empty()) {
            (true, _) => self.dry_run(selection, cx),
            (false, false) => self.change_ids(selection, cx),
            (false, true) => self.change_matching(selection, cx),
        }
    }

    /// The states from which the selected letters are taken: those that the conditions name, the first
    /// of `takes` by default, or all of them for letters given by id.
    fn states(&self, selection: &Bulk) -> Result<Vec<LetterState>> {
        Ok(match selection.letters()?.named_states() {
            Some(named) => named
                .into_iter()
                .filter(|state| self.takes.contains(state))
                .collect(),
            None if selection.ids().is_empty() => self.takes.iter().take(1).copied().collect(),
            None => self.takes.to_vec(),
        })
    }

    /// The selected letters that are taken; `None` if the conditions exclude them all.
    fn taken(&self, selection: &Bulk) -> Result<Option<LetterFilter>> {
        let states = self.states(selection)?;
        match states.is_empty() {
            true => Ok(None),
            false => Ok(Some(selection.letters()?.states(states))),
        }
    }

    /// Shows how many letters match, some of them, those left out, and the command that acts.
    fn dry_run(&self, selection: &Bulk, cx: &mut Context<'_>) -> Result<Ending> {
        let db = &cx.database()?;
        let taken = self.taken(selection)?;
        let count = |taken| Ok::<_, Error>(db.dlq().count(taken)?.letters);
        let letters = taken.as_ref().map_or(Ok(0), count)?;
        let dry_run = DryRun {
            noun: "letter",
            action: self.batches.action,
            affected: selection.limited(letters),
            matching: letters,
            left_out: &self.left_out(selection, db)?,
            to_act: self.to_act.clone(),
        };
        let heading = format!(
            "{}; {} would be {}.",
            matching(
                letters,
                &format!("{} letter", words(&self.states(selection)?))
            ),
            grouped(dry_run.affected),
            self.batches.participle
        );
        let taken = taken.unwrap_or_default();
        let affected = dry_run.affected;
        let sample = || Ok(Some(letter_table(&first_letters(db, &taken, affected)?)));
        dry_run.show(&heading, sample, cx)?;
        match letters {
            0 => self.nothing_matched(selection, cx),
            _ => Ok(Ending::Done),
        }
    }

    /// The matching letters that are left out because of their state.
    fn left_out(&self, selection: &Bulk, db: &Database) -> Result<Vec<LeftOut>> {
        let letters = selection.letters()?;
        let states = self.states(selection)?;
        let mut candidates = letters
            .named_states()
            .unwrap_or_else(|| self.takes.to_vec());
        candidates.retain(|state| !states.contains(state));
        let mut lines = Vec::new();
        for state in candidates {
            let is_taken = self.takes.contains(&state);
            lines.push(LeftOut {
                count: db.dlq().count(&letters.clone().state(state))?.letters,
                reason: state.as_str(),
                state: Some(state.as_str()),
                because: state.to_string(),
                include: is_taken
                    .then(|| "the condition state=open,quarantined includes them".to_owned()),
            });
        }
        lines.retain(|line| line.count > 0);
        Ok(lines)
    }

    /// Says that no letter can be changed, and why.
    fn nothing_matched(&self, selection: &Bulk, cx: &mut Context<'_>) -> Result<Ending> {
        let states = self.states(selection)?;
        let letters = selection.letters()?;
        let mut none = NoneMatched::of(selection.queue(), &letters, &states);
        none.quarantined = self.quarantined;
        if states.is_empty() {
            none.what = format!(
                "no letter in these states can be {}",
                self.batches.participle
            );
        }
        none.say(cx)
    }

    /// Changes all matching letters in batches, until a signal arrives.
    fn change_matching(&self, selection: &Bulk, cx: &mut Context<'_>) -> Result<Ending> {
        let db = &cx.database()?;
        let Some(filter) = self.taken(selection)? else {
            return self.nothing_matched(selection, cx);
        };
        // As many as match now, so that letters that die meanwhile cannot prolong the command.
        let total = selection.limited(db.dlq().count(&filter)?.letters);
        let some = filter.clone().limit(total);
        let ended = self.batches.run(total, cx, |go_on| {
            (self.change)(db.dlq(), &some, &selection.operator(), &mut |so_far| {
                go_on(SoFar::of(so_far.letters.len(), so_far.audit))
            })
        })?;
        let SoFar { done, audit, .. } = ended.so_far;
        // A batch passes over letters that another session has locked.
        let left = match total.saturating_sub(done) {
            0 => Ok(Vec::new()),
            _ if ended.is_stopped() => Ok(Vec::new()),
            missing => db.dlq().list(&filter.limit(missing.min(MAX_SKIPPED))),
        };
        let locked = left.iter().flatten().map(|letter| (letter.id, locked()));
        let not_done = NotDone(locked.collect());
        let ending = report(&self.batches, done, &not_done, audit, cx)?;
        left?;
        let ending = ended.or_stopped(ending, cx)?;
        match done {
            0 if ending == Ending::Done => self.nothing_matched(selection, cx),
            _ => Ok(ending),
        }
    }

    /// Changes the letters given by id, and explains why others did not change.
    fn change_ids(&self, selection: &Bulk, cx: &mut Context<'_>) -> Result<Ending> {
        let db = &cx.database()?;
        let operator = selection.operator();
        let taken = self.taken(selection)?;
        let changed = match &taken {
            Some(filter) => (self.change)(db.dlq(), filter, &operator, &mut |_| {
                ControlFlow::Continue(())
            })?,
            None => Changed::default(),
        };
        let mut rest = selection.ids();
        rest.retain(|id| !changed.letters.contains(id));
        let done = changed.letters.len() as u64;
        let left = selection.left(done);
        let not_done = NotDone::letters(&rest, self.takes, taken.as_ref(), left, db);
        report(&self.batches, done, &not_done, changed.audit, cx)
    }
}

/// Reports a change. The exit code is 1 if a letter did not change.
fn report(
    batches: &Batches,
    done: u64,
    not_done: &NotDone,
    audit: Option<i64>,
    cx: &mut Context<'_>,
) -> Result<Ending> {
    let line = batches.line(done, not_done.json("letters"), audit);
    cx.print(&line, batches.text(done))?;
    not_done.say("letter", batches.participle, cx);
    Ok(Ending::of(not_done.0.is_empty()))
}
