//! Records the time during which a job holds a unique key.

use std::sync::Arc;

use super::{IN_FLIGHT, Replay};
use crate::checker::job_history::KeySpan;
use crate::db_trace::RowChange;

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
                        to: (i64::MAX, i64::MAX),
                        visible_to: i64::MAX,
                    });
                }
            }
            (Some(_), None) => {
                if let Some(held) = self.history.keys.last_mut() {
                    held.to = (last.seq, last.at);
                    held.visible_to = last.committed + IN_FLIGHT;
                }
            }
            _ => {}
        }
    }
}
