//! Tracks the leases that a worker holds, and the suspects among their jobs.

use std::collections::HashSet;

use uuid::Uuid;

use super::State;
use crate::job::job::JobId;
use crate::job::wait::from_now;
use crate::pipeline::claim::{ClaimedJob, LeaseId, max_crashes_beside};
use crate::sync::atomic::Ordering;
use crate::worker::latch::lock;

impl State {
    /// Records the leases of claimed jobs, before the next claim and before their verdicts. Leaves out suspects that may
    /// not run beside one before them, or one that another worker of the pool claimed meanwhile.
    pub(crate) fn hold(&self, claimed: &[ClaimedJob]) {
        let mut held = lock(&self.held);
        for jobs in claimed.chunk_by(|job, next| job.lease == next.lease) {
            let [first, ..] = jobs else { continue };
            let fits = |most| first.crashes.cast_signed() <= max_crashes_beside(most);
            if first.crashes > 0
                && !self
                    .shared
                    .suspects
                    .admit(first.lease.0, first.crashes, fits)
            {
                continue;
            }
            let lease = held.entry(first.lease).or_default();
            lease.jobs += jobs.len();
            // Each suspect has a separate lease.
            lease.crashes = first.crashes;
        }
    }

    /// Whether [`hold`](State::hold) left out this claimed job.
    pub(crate) fn has_left_out(&self, job: &ClaimedJob) -> bool {
        job.crashes > 0 && self.jobs_of(job.lease).is_none()
    }

    /// Returns the number of jobs that a held lease was claimed with.
    pub(crate) fn jobs_of(&self, lease: LeaseId) -> Option<usize> {
        lock(&self.held).get(&lease).map(|held| held.jobs)
    }

    /// Returns how many crashes a job may have that is claimed next to those that the workers of the pool hold.
    /// Those held count until their outcomes are stored, because a crash counts against them until then.
    pub(crate) fn max_crashes(&self) -> i32 {
        max_crashes_beside(self.shared.suspects.most_crashes())
    }

    /// Forgets leases.
    pub(crate) fn forget(&self, leases: &[LeaseId]) {
        let mut held = lock(&self.held);
        let forgotten = leases.iter().filter_map(|it| Some((it, held.remove(it)?)));
        let suspects = forgotten.filter(|(_, held)| held.crashes > 0);
        let suspects: Vec<Uuid> = suspects.map(|(lease, _)| lease.0).collect();
        drop(held);
        if !suspects.is_empty() {
            self.shared.suspects.remove(&suspects);
        }
    }

    /// Forgets all leases.
    pub(crate) fn forget_all(&self) {
        let held: Vec<LeaseId> = lock(&self.held).keys().copied().collect();
        self.forget(&held);
    }

    /// Lets the suspects among its jobs count only until their leases expire, because nothing renews these any more. A
    /// handler that never ends would otherwise keep other workers from running suspects.
    pub(crate) fn abandon_suspects(&self) {
        let held: Vec<Uuid> = lock(&self.held).keys().map(|lease| lease.0).collect();
        let until = from_now(self.config.lease);
        self.shared.suspects.abandon(&held, until);
    }

    /// Whether an operator cancelled a leased job.
    pub(crate) fn is_cancelled(&self, job: JobId) -> bool {
        self.has_cancelled.load(Ordering::SeqCst) && lock(&self.cancelled).contains(&job)
    }

    /// Notes a cancelled job, and tells its handler. It may still wait for a slot.
    pub(crate) fn cancel(&self, job: JobId) {
        let mut cancelled = lock(&self.cancelled).clone();
        cancelled.insert(job);
        self.set_cancelled(&cancelled);
    }

    /// Notes the leased jobs that operators cancelled, and tells the running handlers.
    pub(crate) fn set_cancelled(&self, cancelled: &HashSet<JobId>) {
        let is_any = !cancelled.is_empty();
        // Before it looks at the slots. A slot looks at this after it shows its job.
        lock(&self.cancelled).clone_from(cancelled);
        self.has_cancelled.store(is_any, Ordering::SeqCst);
        if !is_any {
            return;
        }
        for run in self.slots.runs() {
            for running in run.jobs() {
                if cancelled.contains(&running.meta.id) {
                    running.signal.cancel_by_operator();
                }
            }
        }
    }
}

impl Drop for State {
    /// No thread runs its jobs any more.
    fn drop(&mut self) {
        self.forget_all();
    }
}

/// A lease that this process holds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeldLease {
    /// The number of jobs that were claimed with it.
    jobs: usize,
    /// The crashes of its jobs.
    crashes: u32,
}
