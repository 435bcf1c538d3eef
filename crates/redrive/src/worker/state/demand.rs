//! Decides how many jobs to claim, from what the worker holds and from the verdicts that it has not written.

use super::State;
use crate::pipeline::claim::demand::{
    MAX_CHUNK, MAX_IN_A_ROW, MAX_UNWRITTEN, demand, part, room, wanted, with_batches,
};
use crate::sync::atomic::Ordering;

impl State {
    /// Returns how many jobs to claim soon after another claim. 0: none.
    pub(crate) fn demand(&self) -> usize {
        self.claimable(demand)
    }

    /// Returns how many jobs there is room for.
    pub(crate) fn room(&self) -> usize {
        self.claimable(room)
    }

    fn claimable(&self, free: fn(usize, usize) -> usize) -> usize {
        if self.unwritten.load(Ordering::Relaxed) >= MAX_UNWRITTEN {
            return 0;
        }
        let coming = self.in_flight() + self.requested();
        let wanted = wanted(self.slots.count, self.run_time());
        let (part, batch) = self.slots.allow(&self.user, wanted);
        let free = free(part, coming).min(batch);
        let missing = self.missing.load(Ordering::Relaxed);
        let missing = missing.saturating_sub(self.requested());
        with_batches(free, missing, self.batch_size.load(Ordering::Relaxed))
    }

    /// Counts a verdict that is to be written.
    pub(crate) fn count_unwritten(&self) {
        self.unwritten.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts verdicts that were written or given up.
    pub(crate) fn count_written(&self, verdicts: usize) {
        let before = self.unwritten.fetch_sub(verdicts, Ordering::Relaxed);
        if before >= MAX_UNWRITTEN {
            self.wake_fetcher();
        }
    }

    /// Records how many jobs would fill the batches that are being gathered.
    pub(crate) fn set_missing(&self, jobs: usize) {
        self.missing.store(jobs, Ordering::Relaxed);
        self.wake_fetcher();
    }

    /// Records the size of the largest batches of the kinds in a claim.
    pub(crate) fn set_batch_size(&self, size: usize) {
        self.batch_size.store(size, Ordering::Relaxed);
    }

    /// Returns how many of these claimed jobs a slot takes at a time.
    pub(crate) fn chunk(&self, jobs: usize) -> usize {
        part(jobs, self.slots.count, self.run_time(), MAX_CHUNK)
    }

    /// Returns how many of these jobs of groups to take of one group before those of the next one.
    pub(crate) fn in_a_row(&self, jobs: usize) -> usize {
        match self.handlers.only_batches_of() {
            // None of them follows another one, so each needs a turn.
            Some(_) => 1,
            None => part(jobs, self.slots.count, self.run_time(), MAX_IN_A_ROW),
        }
    }

    /// Wakes the fetcher if there is room for jobs.
    pub(super) fn wake_fetcher(&self) {
        if self.demand() > 0 {
            self.shared.room.ring();
        }
    }
}
