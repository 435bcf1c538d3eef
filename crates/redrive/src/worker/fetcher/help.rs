//! Asks the second fetcher for help.

use std::sync::Arc;
use std::time::Duration;

use super::Fetcher;
use crate::db::ask::one;
use crate::db::sql;
use crate::job::wait::from_now;
use crate::pipeline::claim::demand::MAX_BATCH;
use crate::sync::Instant;
use crate::sync::atomic::Ordering;
use crate::worker::source::Source;

/// How often to count the other workers while batches are full.
const MEET_EVERY: Duration = Duration::from_secs(1);

impl Fetcher {
    /// Asks for one more batch if the first fetcher claims full ones.
    pub(super) fn ask_for_help(&mut self, source: &Arc<Source>, jobs: usize) {
        if jobs < MAX_BATCH || self.state.slots.have_other_weights(&self.state.user) {
            return;
        }
        self.meet_other_workers();
        // If there are other workers, they take the role of the second fetcher.
        if self.state.other_workers.load(Ordering::Relaxed) == 0 {
            // Does nothing while the second fetcher is busy.
            _ = self.second.try_send((self.state.place, Arc::clone(source)));
        }
    }

    /// Counts the other workers, because their claims and this one's must not start at the same jobs.
    /// At the first full batch, a second later they may have drained the queue.
    fn meet_other_workers(&mut self) {
        if self.meet_at > Instant::now() {
            return;
        }
        self.meet_at = from_now(MEET_EVERY);
        let me = self.state.identity.id.0;
        let doing = "count the other workers";
        match self
            .claimer
            .call(doing, one(doing, &sql::OTHER_WORKERS, &[&me]))
        {
            Ok(others) => self.state.other_workers.store(others, Ordering::Relaxed),
            // Run what was claimed. The next claim reports a database that does not answer.
            Err(error) => log::debug!("{}: {error}", self.state),
        }
    }
}
