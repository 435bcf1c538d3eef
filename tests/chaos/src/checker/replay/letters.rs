//! Checks changes of a letter without its job.

use super::Replay;
use crate::checker::Rule;
use crate::db_trace::{Change, RowChange};

impl Replay<'_, '_> {
    /// Checks a change of only the letter.
    pub(super) fn letter_changes(&mut self, letter: Option<&RowChange>, at: i64) {
        let Some(letter) = letter else { return };
        let before = self.now.letter.as_ref().map(|(state, _)| &**state);
        let after = match letter.change {
            Change::Out => None,
            _ => letter.state.as_deref(),
        };
        match (before, after) {
            (Some("open" | "quarantined"), Some("discarded" | "open" | "quarantined"))
            | (Some("discarded"), Some("open" | "quarantined")) => {}
            (Some("recovered" | "discarded"), None) => {}
            (Some(state), None) => {
                let text = format!("its letter was deleted while {state}");
                self.violation(Rule::LawfulPrune, at, text);
            }
            (before, after) => {
                let text =
                    format!("its letter changed from {before:?} to {after:?} without its job");
                self.violation(Rule::Lineage, at, text);
            }
        }
    }
}
