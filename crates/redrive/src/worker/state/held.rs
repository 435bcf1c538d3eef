//! Tracks the leases that a worker holds, and the suspects among their jobs.

use std::collections::{HashMap, HashSet};

use super::State;
use crate::job::job::JobId;
use crate::pipeline::claim::{ClaimedJob, LeaseId, max_crashes_beside};
use crate::sync::atomic::Ordering;
use crate::worker::latch::lock;

impl State {
    /// Records the leases of claimed jobs, before the next claim and before their verdicts.
    pub(crate) fn hold(&self, claimed: &[ClaimedJob]) {
        let mut held = lock(&self.held);
        for jobs in claimed.chunk_by(|job, next| job.lease == next.lease) {
            let [first, ..] = jobs else { continue };
            let lease = held.entry(first.lease).or_default();
            lease.jobs += jobs.len();
            // Each suspect has a separate lease.
            lease.crashes = first.crashes;
        }
    }

    /// Returns the number of jobs that a held lease was claimed with.
    pub(crate) fn jobs_of(&self, lease: LeaseId) -> Option<usize> {
        lock(&self.held).get(&lease).map(|held| held.jobs)
    }

    /// Returns how many crashes a job may have that is claimed next to those held. Those held count until
    /// their outcomes are stored, because a crash counts against them until then.
    pub(crate) fn max_crashes(&self) -> i32 {
        max_crashes_beside(highest(&lock(&self.held)))
    }

    /// Forgets leases. Returns whether the last suspect was among them.
    pub(crate) fn forget(&self, leases: &[LeaseId]) -> bool {
        let mut held = lock(&self.held);
        let forgotten = leases.iter().filter_map(|lease| held.remove(lease));
        let forgotten = forgotten.map(|lease| lease.crashes).max();
        forgotten > Some(0) && highest(&held) == 0
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
        for slot_state in self.slots.all() {
            for running in &*lock(&slot_state.running) {
                if cancelled.contains(&running.meta.id) {
                    running.signal.cancel_by_operator();
                }
            }
        }
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

/// Returns the most crashes of a job of a held lease.
fn highest(held: &HashMap<LeaseId, HeldLease>) -> u32 {
    let crashes = held.values().map(|lease| lease.crashes);
    crashes.max().unwrap_or_default()
}
