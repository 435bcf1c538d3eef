//! Shared by `discard` and `reopen`: moves letters into another state, and says how to undo it.

use std::ops::ControlFlow;

use redrive::dlq::{Changed, Dlq, LetterFilter, LetterState};
use redrive::{Database, JobId, Operator};
use serde_json::json;

use super::bulk::{BulkAction, BulkPlan, BulkSelection};
use super::none_matched::{NoneMatched, words};
use super::not_done::{say_not_done, skipped_json};
use crate::batches::in_batches;
use crate::context::{Context, Ending};
use crate::error::Result;
use crate::operator;
use crate::stopped::Stopped;
use crate::terminal::counted;

/// Called after each batch with all letters changed so far.
pub(super) type GoOn<'a> = &'a mut dyn FnMut(&Changed) -> ControlFlow<()>;

/// A command that moves letters into another state.
pub(super) struct StateChange<'a> {
    pub(super) action: BulkAction<'a>,
    /// The states of the letters that it takes. The first is the default.
    pub(super) takes: &'static [LetterState],
    /// The call that changes letters.
    pub(super) change: fn(Dlq<'_>, &LetterFilter, &Operator, GoOn<'_>) -> redrive::Result<Changed>,
    /// The command that undoes the operation of an audit record.
    pub(super) undo: fn(i64) -> String,
    /// The subcommand and its options for a letter given by id.
    pub(super) by_id: &'a str,
    /// The command that takes quarantined letters with these conditions.
    pub(super) quarantined: &'a dyn Fn(&str) -> String,
    /// Refuses the selection if the action lacks something for it.
    pub(super) check: &'a dyn Fn(&BulkSelection) -> Result<()>,
}

impl StateChange<'_> {
    /// Shows what would change, or changes it.
    pub(super) fn run(&self, selection: &BulkSelection, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        selection.resolve(&db)?;
        (self.check)(selection)?;
        match selection.plan() {
            BulkPlan::DryRun => match selection.dry_run(&self.action, self.takes, &db, cx)? {
                Some(ending) => Ok(ending),
                None => self.nothing_matched(selection, &db, cx),
            },
            BulkPlan::Ids => self.change_ids(selection, &db, cx),
            BulkPlan::Matching => self.change_matching(selection, &db, cx),
        }
    }

    /// Says that no letter can be changed, and why.
    fn nothing_matched(
        &self,
        selection: &BulkSelection,
        db: &Database,
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        let states = selection.states(self.takes)?;
        let what = match states.is_empty() {
            true => format!(
                "no letter in these states can be {}",
                self.action.participle
            ),
            false => format!("no {} letter matches", words(&states)),
        };
        let none = NoneMatched {
            queue: selection.queue(),
            filter: &selection.letters()?,
            states: &states,
            what,
            by_id: self.by_id,
            quarantined: self.quarantined,
        };
        none.say(db, cx)
    }

    /// Changes all matching letters in batches, until a signal arrives.
    fn change_matching(
        &self,
        selection: &BulkSelection,
        db: &Database,
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        let Some(filter) = selection.taken(self.takes)? else {
            return self.nothing_matched(selection, db, cx);
        };
        // As many as match now, so that letters that die meanwhile cannot prolong the command.
        let total = selection.limited((self.action.affects)(&db.dlq().count(&filter)?));
        let operator = operator::current(self.action.reason);
        let filter = filter.limit(total);
        let mut audit = None;
        let (letters, course, changed) = in_batches(self.action.progressive, total, |go_on| {
            (self.change)(db.dlq(), &filter, &operator, &mut |so_far| {
                audit = so_far.audit;
                go_on(so_far.letters.len() as u64)
            })
        })?;
        let stopped = Stopped {
            done: letters,
            total,
            participle: self.action.participle,
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
    fn change_ids(
        &self,
        selection: &BulkSelection,
        db: &Database,
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        let operator = operator::current(self.action.reason);
        let changed = match selection.taken(self.takes)? {
            Some(filter) => (self.change)(db.dlq(), &filter, &operator, &mut |_| {
                ControlFlow::Continue(())
            })?,
            None => Changed::default(),
        };
        let ids = selection.ids().iter().copied();
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
        say_not_done("letter", &not_done, self.action.participle, cx);
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
        let participle = self.action.participle;
        cx.print(
            &json!({
                "action": self.action.command,
                "letters": changed,
                "skipped": skipped_json(skipped.iter().copied()),
                "audit": audit,
            }),
            format!("{} {participle}", counted(changed, "letter")),
        )
    }
}
