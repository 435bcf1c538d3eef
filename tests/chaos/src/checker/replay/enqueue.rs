//! Counts the ways in which jobs are enqueued.

use super::Replay;
use crate::checker::Path;
use crate::db_trace::{Place, RowChange};
use crate::role::QUEUE;

impl Replay<'_, '_> {
    /// Counts the way in which it was enqueued.
    pub(super) fn enqueued(&mut self, entered: &RowChange) {
        self.findings.paths.take(Path::Enqueued);
        if entered.place == Place::Delayed {
            self.findings.paths.take(Path::EnqueuedDelayed);
        }
        if entered.unique_key.is_some() {
            self.findings.paths.take(Path::EnqueuedUnique);
        }
        if *self.history.queue != *QUEUE {
            self.findings.paths.take(Path::EnqueuedElsewhere);
        }
    }
}
