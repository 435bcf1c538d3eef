//! Records the time during which a job holds a unique key.

use std::sync::Arc;

use super::Replay;
use crate::checker::IN_FLIGHT;
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
        let end = match (left, entered) {
            (None, Some(entered)) => {
                let facts = entered.facts.as_deref();
                if let Some(key) = facts.and_then(|facts| facts.unique_key.as_ref()) {
                    self.history.keys.push(KeySpan {
                        key: Arc::clone(key),
                        from: (entered.seq, entered.at),
                        to: OPEN,
                        visible_to: i64::MAX,
                    });
                }
                return;
            }
            // A job that holds its key until it starts frees it with the claim.
            (Some(left), Some(entered)) if is_start(left, entered) => entered,
            (Some(_), None) => last,
            _ => return,
        };
        let mut open = self.history.keys.iter_mut();
        if let Some(held) = open.rfind(|held| held.to == OPEN) {
            held.to = (end.seq, end.at);
            held.visible_to = end.committed + IN_FLIGHT;
        }
    }
}
