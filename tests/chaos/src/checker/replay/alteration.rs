//! Records how clients change a job that waits. The operations that they asked for must explain each change.

use std::sync::Arc;

use super::{Replay, is_by_worker};
use crate::checker::job_history::ClientChange;
use crate::db_trace::{Place, RowChange};
use crate::facts::{Fact, Facts};

impl<'a> Replay<'a, '_> {
    /// Records a change that a client made.
    pub(super) fn by_client(&mut self, change: ClientChange, row: &RowChange) {
        let by = Arc::clone(&row.process);
        self.history.by_clients.push((change, row.at, by));
    }

    /// Records a change of a delayed job in its place.
    pub(super) fn altered_in_place(&mut self, change: &'a RowChange) {
        let Some(here) = self.now.row.filter(|_| change.place == Place::Delayed) else {
            return;
        };
        if let (Some(before), Some(after)) = (self.now.content, change.facts.as_deref()) {
            self.alter(here, change, before, after);
        }
        self.unchanged(here, change);
        self.now.row = Some(change);
    }

    /// Returns what a waiting job must carry after a client moved it: as before, except for the payload and the
    /// priority. `None`: a worker moved it.
    pub(super) fn altered(
        &mut self,
        left: &RowChange,
        row: &RowChange,
        after: &Facts,
    ) -> Option<Facts> {
        let waits = |place: Place| [Place::Ready, Place::Delayed].contains(&place);
        if is_by_worker(row) || !waits(left.place) || !waits(row.place) {
            return None;
        }
        let before = self.now.content?;
        self.alter(left, row, before, after);
        let is_edited = before.differences(after).contains(&Fact::Payload);
        Some(Facts {
            payload: match is_edited {
                true => after.payload.clone(),
                false => before.payload.clone(),
            },
            priority: after.priority,
            ..before.clone()
        })
    }

    /// Records a change, unless it changes nothing, as when the ring moves a job or a priority stays.
    fn alter(&mut self, left: &RowChange, row: &RowChange, before: &Facts, after: &Facts) {
        let differences = before.differences(after);
        let changes = |fact| differences.contains(&fact);
        let has_moved = (left.place, left.due) != (row.place, row.due);
        if has_moved || changes(Fact::Payload) || changes(Fact::Priority) {
            self.by_client(ClientChange::Altered, row);
        }
    }
}
