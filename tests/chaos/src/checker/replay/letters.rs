//! Checks changes of a letter without its job.

use std::sync::Arc;

use super::Replay;
use crate::checker::Rule;
use crate::db_trace::{Change, RowChange};

impl Replay<'_, '_> {
    /// Checks a change of only the letter.
    pub(super) fn letter_changes(&mut self, letter: Option<&RowChange>, at: i64) {
        let Some(letter) = letter else { return };
        let state = self.now.letter.as_ref().map(|(state, _)| Arc::clone(state));
        let before = state.as_deref();
        let after = match letter.change {
            Change::Out => None,
            _ => letter.state.as_deref(),
        };
        let is_restored = letter.is_archived && letter.change == Change::In;
        if is_restored {
            self.history.captured = (letter.seq, letter.at);
            self.history.gone = None;
        } else if letter.cause.as_deref() == Some("captured") && self.is_captured(letter, before) {
            return;
        }
        match (before, after) {
            (Some("open"), Some("recovered")) => {
                let by = Arc::clone(&letter.process);
                self.history.delivered.push((at, by));
            }
            (Some("open" | "quarantined"), Some("discarded" | "open" | "quarantined"))
            | (Some("discarded"), Some("open" | "quarantined")) => {}
            (Some("recovered" | "discarded"), None) => {}
            // The rows of letters and of the archive are checked on their own.
            (Some(_), None) | (None, Some("open" | "quarantined")) if letter.is_archived => {}
            (Some(state), None) => {
                let text = format!("its letter was deleted while {state}");
                self.vanished(Rule::LawfulPrune, letter, text);
            }
            (before, after) => {
                let text =
                    format!("its letter changed from {before:?} to {after:?} without its job");
                self.violation(Rule::Lineage, at, text);
            }
        }
    }

    /// Whether a capture stored the letter, or opened it again.
    fn is_captured(&mut self, letter: &RowChange, before: Option<&str>) -> bool {
        let generation = self.now.letter.as_ref().map(|(_, generation)| *generation);
        match (before, letter.change) {
            (None, Change::In) => {
                let facts = letter.facts.as_deref();
                self.history.position = facts.and_then(|facts| facts.position.clone());
                self.history.captured = (letter.seq, letter.at);
                self.findings.count("deaths");
                true
            }
            (Some("recovered" | "discarded"), Change::Updated)
                if letter.is_open_letter() && Some(letter.generation - 1) == generation =>
            {
                self.findings.count("deaths");
                true
            }
            _ => false,
        }
    }
}
