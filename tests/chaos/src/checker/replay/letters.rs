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
        let (before, generation) = before.map_or((None, 0), |(state, of)| (Some(state), of));
        let after = letter.state.as_deref();
        let after = after.filter(|_| letter.change != Change::Out);
        let is_captured = letter.cause.as_deref() == Some("captured");
        match (before.as_deref(), after) {
            (Some("open"), Some("recovered")) => {
                self.by_client(ClientChange::Delivered, letter);
            }
            (None, Some("open" | "quarantined")) if letter.is_archived => {}
            (None, Some("open")) if is_captured => {
                let facts = letter.facts.as_deref();
                self.history.position = facts.and_then(|facts| facts.position.clone());
                self.findings.count("deaths");
            }
            (Some("recovered" | "discarded"), Some("open"))
                if is_captured && letter.generation == generation + 1 =>
            {
                self.findings.count("deaths");
            }
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
