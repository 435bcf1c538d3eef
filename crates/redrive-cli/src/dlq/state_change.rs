//! Shared by `discard` and `reopen`: moves letters into another state, and says how to undo it.

use std::ops::ControlFlow;

use redrive::dlq::{Changed, Dlq, LetterFilter, LetterState};
use redrive::{Database, JobId, Operator};
use serde_json::json;

use super::left_out::{LeftOut, left_out_json, matching, write_left_out};
use super::letter_table::letter_table;
use super::none_matched::{NoneMatched, words};
use super::not_done::{say_not_done, skipped_json};
use crate::batches::in_batches;
use crate::context::{Context, Ending};
use crate::error::Result;
use crate::selection::Bulk;
use crate::stopped::Stopped;
use crate::terminal::{counted, grouped, json_line};

/// How many letters a dry run shows.
const SAMPLE: u64 = 5;

/// Called after each batch with all letters changed so far.
pub(super) type GoOn<'a> = &'a mut dyn FnMut(&Changed) -> ControlFlow<()>;

/// A command that moves letters into another state.
pub(super) struct StateChange<'a> {
    /// The subcommand.
    pub(super) command: &'static str,
    /// The participle: `discarded`.
    pub(super) participle: &'static str,
    /// The label of the progress bar: `discarding`.
    pub(super) progressive: &'static str,
    /// The reason in the command that acts.
    pub(super) reason: Option<&'a str>,
    /// The states of the letters that it takes. The first is the default.
    pub(super) takes: &'static [LetterState],
    /// The call that changes letters.
    pub(super) change: fn(Dlq<'_>, &LetterFilter, &Operator, GoOn<'_>) -> redrive::Result<Changed>,
    /// The command that undoes the operation of an audit record.
    pub(super) undo: fn(i64) -> String,
    /// The command that takes quarantined letters with these conditions.
    pub(super) quarantined: &'a dyn Fn(&str) -> String,
}

impl StateChange<'_> {
    /// Shows what would change, or changes it.
    pub(super) fn run(&self, selection: &Bulk, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        match (selection.is_dry_run(), selection.ids().is_empty()) {
            (true, _) => self.dry_run(selection, &db, cx),
            (false, false) => self.change_ids(selection, &db, cx),
            (false, true) => self.change_matching(selection, &db, cx),
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
        Ok(match states.is_empty() {
            true => None,
            false => Some(selection.letters()?.states(states)),
        })
    }

    /// Shows how many letters match, some of them, those left out, and the command that acts.
    fn dry_run(&self, selection: &Bulk, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
        let taken = self.taken(selection)?;
        let letters = match &taken {
            Some(taken) => db.dlq().count(taken)?.letters,
            None => 0,
        };
        let affected = selection.limited(letters);
        let left_out = self.left_out(selection, db)?;
        if cx.global.json {
            json_line(
                cx.out,
                &json!({
                    "dry_run": true,
                    "action": self.command,
                    "letters": affected,
                    "matching": letters,
                    "skipped": left_out_json("letters", &left_out),
                }),
            )?;
        }
        let Some(taken) = taken.filter(|_| letters > 0) else {
            return self.nothing_matched(selection, db, cx);
        };
        if cx.global.json {
            return Ok(Ending::Done);
        }
        writeln!(
            cx.out,
            "{}; {} would be {}.\n",
            matching(letters, &words(&self.states(selection)?)),
            grouped(affected),
            self.participle
        )?;
        write_left_out("letter", &left_out, cx.out)?;
        letter_table(&db.dlq().list(&taken.limit(SAMPLE))?).write(cx.out)?;
        writeln!(cx.out)?;
        let command = format!("redrive dlq {}", self.command);
        cx.propose(&selection.command_line(&command, self.reason, &[]))
    }

    /// The matching letters that are left out because of their state.
    fn left_out(&self, selection: &Bulk, db: &Database) -> Result<Vec<LeftOut>> {
        let (letters, takes) = (selection.letters()?, self.takes);
        let states = self.states(selection)?;
        let candidates = letters.named_states().unwrap_or_else(|| takes.to_vec());
        let mut lines = Vec::new();
        for state in candidates {
            if states.contains(&state) {
                continue;
            }
            let letters = db.dlq().count(&letters.clone().state(state))?.letters;
            if letters == 0 {
                continue;
            }
            let include = takes
                .contains(&state)
                .then(|| "the condition state=open,quarantined includes them".to_owned());
            lines.push(LeftOut {
                count: letters,
                reason: state.as_str(),
                state: Some(state.as_str()),
                because: state.to_string(),
                include,
            });
        }
        Ok(lines)
    }

    /// Says that no letter can be changed, and why.
    fn nothing_matched(
        &self,
        selection: &Bulk,
        db: &Database,
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        let states = self.states(selection)?;
        let what = match states.is_empty() {
            true => format!("no letter in these states can be {}", self.participle),
            false => format!("no {} letter matches", words(&states)),
        };
        let none = NoneMatched {
            queue: selection.queue(),
            filter: &selection.letters()?,
            states: &states,
            what,
            quarantined: self.quarantined,
        };
        none.say(db, cx)
    }

    /// Changes all matching letters in batches, until a signal arrives.
    fn change_matching(
        &self,
        selection: &Bulk,
        db: &Database,
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        let Some(filter) = self.taken(selection)? else {
            return self.nothing_matched(selection, db, cx);
        };
        // As many as match now, so that letters that die meanwhile cannot prolong the command.
        let total = selection.limited(db.dlq().count(&filter)?.letters);
        let operator = selection.operator();
        let filter = filter.limit(total);
        let mut audit = None;
        let (letters, course, changed) = in_batches(self.progressive, total, |go_on| {
            (self.change)(db.dlq(), &filter, &operator, &mut |so_far| {
                audit = so_far.audit;
                go_on(so_far.letters.len() as u64)
            })
        })?;
        let stopped = Stopped {
            done: letters,
            total,
            participle: self.participle,
            undo: audit.map(|audit| format!("undo: {}", (self.undo)(audit))),
        };
        changed.inspect_err(|_| stopped.say_after_error("letter", cx))?;
        self.report(letters, &[], audit, cx)?;
        if course.is_break() && letters < total {
            return stopped.say("letter", cx);
        }
        match letters {
            0 => self.nothing_matched(selection, db, cx),
            _ => Ok(Ending::Done),
        }
    }

    /// Changes the letters given by id, and explains why others did not change.
    fn change_ids(&self, selection: &Bulk, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
        let operator = selection.operator();
        let changed = match self.taken(selection)? {
            Some(filter) => (self.change)(db.dlq(), &filter, &operator, &mut |_| {
                ControlFlow::Continue(())
            })?,
            None => Changed::default(),
        };
        let ids = selection.ids().into_iter();
        let skipped: Vec<JobId> = ids.filter(|id| !changed.letters.contains(id)).collect();
        let (mut not_done, mut reasons) = (Vec::new(), Vec::new());
        for id in &skipped {
            let (reason, cause) = match db.dlq().get(*id)? {
                None => ("missing", "it does not exist".to_owned()),
                Some(letter) if self.takes.contains(&letter.state) => (
                    "conditions",
                    format!("it is {} and does not match the conditions", letter.state),
                ),
                Some(letter) => (letter.state.as_str(), format!("it is {}", letter.state)),
            };
            reasons.push((*id, reason));
            not_done.push((*id, cause));
        }
        self.report(changed.letters.len() as u64, &reasons, changed.audit, cx)?;
        say_not_done("letter", &not_done, self.participle, cx);
        Ok(if skipped.is_empty() {
            Ending::Done
        } else {
            Ending::NothingMatched
        })
    }

    fn report(
        &self,
        changed: u64,
        skipped: &[(JobId, &str)],
        audit: Option<i64>,
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        let participle = self.participle;
        cx.print(
            &json!({
                "action": self.command,
                "letters": changed,
                "skipped": skipped_json(skipped.iter().copied()),
                "audit": audit,
            }),
            format!("{} {participle}", counted(changed, "letter")),
        )
    }
}
