//! Checks changes of a letter without its job.

use super::Replay;
use crate::checker::Rule;
use crate::checker::job_history::ClientChange;
use crate::db_trace::{Change, RowChange};

impl Replay<'_, '_> {
    /// Checks a change of only the letter.
    pub(super) fn letter_changes(&mut self, letter: Option<&RowChange>, at: i64) {
        let Some(letter) = letter else { return };
        let before = self.now.letter.clone();
        let after = letter.state.as_deref();
        let after = after.filter(|_| letter.change != Change::Out);
        match (before.as_ref().map(|(state, _)| &**state), after) {
            (Some("open"), Some("recovered")) => {
                self.by_client(ClientChange::Delivered, letter);
            }
            (None, Some("open" | "quarantined")) if letter.is_archived => {}
            // The rules of rows check these.
            (
                Some("open" | "quarantined" | "discarded"),
                Some("open" | "quarantined" | "discarded"),
            )
            | (Some(_), None) => {}
            (before, after) => {
                let text =
                    format!("its letter changed from {before:?} to {after:?} without its job");
                self.violation(Rule::Lineage, at, text);
            }
        }
    }
}
