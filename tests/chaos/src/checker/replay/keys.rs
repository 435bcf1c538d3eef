//! Records the time during which a job holds a unique key.

use std::sync::Arc;

use super::{IN_FLIGHT, Replay};
use crate::checker::Path;
use crate::checker::job_history::KeySpan;
use crate::db_trace::{Place, RowChange};
use crate::facts::Facts;

/// The end of a key that is still held.
const OPEN: (i64, i64) = (i64::MAX, i64::MAX);

fn is_start(left: &RowChange, entered: &RowChange) -> bool {
    let facts = entered.facts.as_deref();
    left.place == Place::Ready
        && entered.place == Place::Leased
        && facts.is_some_and(Facts::frees_its_key)
}

impl Replay<'_, '_> {
    /// Records when it holds a unique key.
    pub(super) fn track_key(
        &mut self,
        entered: Option<&RowChange>,
        left: Option<&RowChange>,
        changes: &[RowChange],
    ) {
        let last = &changes[changes.len() - 1];
        match (left, entered) {
            (None, Some(entered)) => {
                if let Some(key) = &entered.unique_key {
                    let from = (entered.seq, entered.at);
                    self.history.keys.push(KeySpan {
                        key: Arc::clone(key),
                        from,
                        to: OPEN,
                        visible_to: i64::MAX,
                    });
                }
            }
            // A job that holds its key until it starts frees it with the claim.
            (Some(left), Some(entered)) if is_start(left, entered) => {
                let mut open = self.history.keys.iter_mut();
                if let Some(held) = open.rfind(|held| held.to == OPEN) {
                    held.to = (entered.seq, entered.at);
                    held.visible_to = entered.committed + IN_FLIGHT;
                }
                self.findings.paths.take(Path::KeyFreedAtStart);
            }
            (Some(_), None) => {
                let mut open = self.history.keys.iter_mut();
                if let Some(held) = open.rfind(|held| held.to == OPEN) {
                    held.to = (last.seq, last.at);
                    held.visible_to = last.committed + IN_FLIGHT;
                }
            }
            _ => {}
        }
    }
}
