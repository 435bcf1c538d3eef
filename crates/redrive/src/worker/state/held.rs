//! Tracks the leases that a worker holds, and the suspects among their jobs.

use std::collections::{HashMap, HashSet};

use super::State;
use crate::job::job::JobId;
use crate::pipeline::claim::{ClaimedJob, LeaseId, max_crashes_beside};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
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
            if first.crashes > 0 {
                lock(&self.suspects.held).insert(first.lease, first.crashes);
            }
        }
    }

    /// Returns the number of jobs that a held lease was claimed with.
    pub(crate) fn jobs_of(&self, lease: LeaseId) -> Option<usize> {
        lock(&self.held).get(&lease).map(|held| held.jobs)
    }

    /// Returns how many crashes a job may have that is claimed next to those that the worker holds, of all its queues. Those
    /// held count until their outcomes are stored, because a crash counts against them until then.
    pub(crate) fn max_crashes(&self) -> i32 {
        let crashes = lock(&self.suspects.held).values().copied().max();
        max_crashes_beside(crashes.unwrap_or_default())
    }

    /// Forgets leases.
    pub(crate) fn forget(&self, leases: &[LeaseId]) {
        let mut held = lock(&self.held);
        let forgotten = leases.iter().filter_map(|it| Some((it, held.remove(it)?)));
        let suspects = forgotten.filter(|(_, held)| held.crashes > 0);
        let suspects: Vec<&LeaseId> = suspects.map(|(lease, _)| lease).collect();
        drop(held);
        if suspects.is_empty() {
            return;
        }
        let mut held = lock(&self.suspects.held);
        for lease in suspects {
            held.remove(lease);
        }
        if held.is_empty() {
            self.suspects.have_ended.store(true, Ordering::SeqCst);
            self.look_for_jobs();
        }
    }

    /// Whether the worker has forgotten its last suspect since the last call. A job of any of its queues may have waited
    /// for that, and sends no notification.
    pub(crate) fn suspects_have_ended(&self) -> bool {
        self.suspects.have_ended.swap(false, Ordering::SeqCst)
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

/// The suspects that a worker holds, of all its queues.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    /// The crashes of the job of each lease.
    held: Mutex<HashMap<LeaseId, u32>>,
    have_ended: AtomicBool,
}
