//! Checks that a letter is removed only by a prune, a retention rule or an erasure, and not before its time.

use super::Letter;
use crate::checker::Rule;
use crate::clock::micros;
use crate::db_trace::LetterRow;
use crate::history::Operation;
use crate::role::keeping::{Afterwards, PRUNE_AGE, rule_of};

impl Letter<'_, '_> {
    /// Checks a letter whose row was deleted, and perhaps archived.
    pub(super) fn removed(
        &mut self,
        old: &LetterRow,
        gone: &LetterRow,
        archived: Option<&LetterRow>,
    ) {
        let (by, at) = (&*gone.process, gone.at);
        let is_closed = ["recovered", "discarded"].contains(&&*old.state);
        // A scenario may have aged the row.
        let since = match is_closed {
            true => gone.changed_at,
            false => gone.changed_at.max(gone.died_at),
        };
        let age = gone.began - since;
        let is_after = |keep| age >= micros(keep);
        let asked = |operation| self.calls.covers(by, operation, at);
        let is_lawful = match (rule_of(&old.state), archived) {
            (Some((keep, Afterwards::Archived)), Some(_)) => is_after(keep),
            (_, Some(_)) => false,
            (Some((keep, Afterwards::Deleted)), None)
                if is_after(keep) && self.applies_retention(gone) =>
            {
                true
            }
            (_, None) => {
                let is_pruned = is_closed && is_after(PRUNE_AGE) && asked(Operation::Prune);
                is_pruned || asked(Operation::Erase)
            }
        };
        if !is_lawful {
            let what = archived.map_or("deleted", |_| "archived");
            let text = format!("{by} {what} it {age} µs after it was {}", old.state);
            self.violation(Rule::Retention, gone, text);
        }
    }

    /// Whether the process applies the retention rules: a worker does so at times, an operator when it asks.
    fn applies_retention(&self, gone: &LetterRow) -> bool {
        gone.process.starts_with("worker")
            || self
                .calls
                .covers(&gone.process, Operation::Retention, gone.at)
    }

    /// Checks an archived letter that was deleted.
    pub(super) fn deleted_from_archive(&mut self, last: &LetterRow) {
        let by = |operation| self.calls.covers(&last.process, operation, last.at);
        if !by(Operation::DeleteArchived) && !by(Operation::Erase) {
            let text = format!("{} deleted it from the archive", last.process);
            self.violation(Rule::Retention, last, text);
        }
    }
}
