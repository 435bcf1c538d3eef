//! Checks a job that waits: how it becomes ready or is cancelled.

use super::Replay;
use crate::checker::Rule;
use crate::checker::job_history::ClientChange;
use crate::db_trace::{Place, RowChange};

impl Replay<'_, '_> {
    /// Checks a job that moves and waits on.
    pub(super) fn waits_on(&mut self, left: &RowChange, entered: &RowChange) {
        let at = entered.at;
        self.unchanged(left, entered);
        self.check_ready_at(left, entered);
        let is_promoted = left.place == Place::Delayed && entered.place == Place::Ready;
        // An enqueue that replaces the job moves it, too.
        let is_by_worker = super::is_by_worker(entered);
        let due = left.due.unwrap_or(i64::MIN);
        if is_promoted && is_by_worker && at < due {
            let text = format!("it became ready {} µs too early", due - at);
            self.violation(Rule::NotEarly, at, text);
        }
    }

    /// Checks since when a job counts as ready: a promoted one since it was due, one that a client makes ready since
    /// then, and one that was ready as before.
    fn check_ready_at(&mut self, left: &RowChange, entered: &RowChange) {
        let (Place::Ready, Some(ready_at)) = (entered.place, entered.ready_at) else {
            return;
        };
        let (from, to) = match (left.place, left.ready_at.or(left.due)) {
            (Place::Delayed, _) if !super::is_by_worker(entered) => (entered.began, entered.at),
            (_, Some(before)) => (before, before),
            (_, None) => return,
        };
        if !(from..=to).contains(&ready_at) {
            let text = format!("it is ready since {ready_at}, which is not in {from} to {to}");
            self.violation(Rule::ReadySince, entered.at, text);
        }
    }

    /// Checks a job that ends before a claim.
    pub(super) fn ends_waiting(
        &mut self,
        left: &RowChange,
        died: Option<&RowChange>,
        change: &RowChange,
    ) {
        let Some(letter) = died else {
            return self.by_client(ClientChange::Erased, change);
        };
        match letter.cause.as_deref() {
            Some("manual") => self.by_client(ClientChange::Cancelled, letter),
            // The rules of groups check what it waited for.
            Some("diverted") => {}
            cause => {
                let text = format!("it died as {cause:?} without an attempt");
                return self.violation(Rule::Cause, letter.at, text);
            }
        }
        self.dies(letter, left.generation);
    }

    /// Checks a change that must leave the counts of a job as they are.
    pub(super) fn unchanged(&mut self, left: &RowChange, entered: &RowChange) {
        let limits = |row: &RowChange| (row.attempt, row.max_attempts, row.generation);
        let counts = |row: &RowChange| (limits(row), row.crashes, row.refunds);
        if counts(left) != counts(entered) {
            let text = "it changed its attempts, generation, crashes or refunds while it waited";
            self.violation(Rule::Attempts, entered.at, text);
        }
    }
}
