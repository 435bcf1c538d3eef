//! Checks changes of a letter without its job.

use redrive::dlq::RetentionAction;

use super::{Replay, is_by_worker};
use crate::checker::Rule;
use crate::checker::job_history::ClientChange;
use crate::db_trace::{Change, RowChange};
use crate::role::keeping::action_for;

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
            (Some("open" | "quarantined"), Some("discarded")) => {
                self.by_client(ClientChange::Discarded, letter);
            }
            (Some("discarded"), Some("open" | "quarantined")) => {
                self.by_client(ClientChange::Reopened, letter);
            }
            (None, Some("open" | "quarantined")) if letter.is_archived => {}
            (Some("open"), Some("open")) | (Some("quarantined"), Some("quarantined")) => {}
            (Some(state), None) => self.letter_removed(state, letter),
            (before, after) => {
                let text =
                    format!("its letter changed from {before:?} to {after:?} without its job");
                self.violation(Rule::Lineage, at, text);
            }
        }
    }

    /// Checks a letter that was archived, which only a rule does, or deleted, which clients ask for, too.
    fn letter_removed(&mut self, state: &str, letter: &RowChange) {
        let action = action_for(state);
        if letter.is_archived {
            let is_lawful = action == Some(RetentionAction::Archive);
            self.demand(is_lawful, Rule::Retention, letter.at, || {
                format!("it was archived although it was {state}")
            });
        } else if action != Some(RetentionAction::Delete) || !is_by_worker(letter) {
            let change = match state {
                "recovered" | "discarded" => ClientChange::Pruned,
                _ => ClientChange::Purged,
            };
            self.by_client(change, letter);
        }
    }
}
