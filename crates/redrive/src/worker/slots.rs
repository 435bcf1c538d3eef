//! The slots of a queue, or of several that share them by weight.

use std::sync::Arc;

use crate::pipeline::claim::demand::MAX_BATCH;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::handout::{Giver, Taker, handout};
use crate::worker::latch::lock;
use crate::worker::slot_state::{QueuedChunk, Run, SlotState};

/// The slots that some queues share.
pub(crate) struct Slots {
    /// How many jobs run at the same time.
    pub(crate) count: usize,
    running: Mutex<Vec<Arc<SlotState>>>,
    /// The queues.
    users: Vec<Arc<SlotUser>>,
    /// Whether each of them has run a job for the hold time, so that no other job would start soon.
    pub(crate) are_stuck: AtomicBool,
    /// Chunks of claimed jobs, until a stop, and before them those that waited behind a slow job.
    pub(crate) jobs: Taker<QueuedChunk>,
}

/// What a queue uses of its slots.
#[derive(Debug)]
pub(crate) struct SlotUser {
    weight: u32,
    /// Jobs claimed and not finished. A batch counts as one job.
    pub(crate) in_flight: AtomicUsize,
    /// Whether its last claim was full, so that it could use more slots.
    is_hungry: AtomicBool,
}

impl SlotUser {
    pub(crate) fn new(weight: u32) -> Arc<SlotUser> {
        Arc::new(SlotUser {
            weight,
            in_flight: AtomicUsize::new(0),
            is_hungry: AtomicBool::new(false),
        })
    }

    fn is_hungry(&self) -> bool {
        self.is_hungry.load(Ordering::Relaxed)
    }

    /// Records whether there may be more jobs than it claimed.
    pub(crate) fn set_hungry(&self, is_hungry: bool) {
        self.is_hungry.store(is_hungry, Ordering::Relaxed);
    }
}

impl Slots {
    /// Returns slots for these queues, and what takes jobs to them.
    pub(crate) fn new(count: usize, users: Vec<Arc<SlotUser>>) -> (Arc<Slots>, Giver<QueuedChunk>) {
        // What waits is bounded by what the worker claims; see `MAX_UNWRITTEN`.
        let (giver, jobs) = handout();
        let slots = Slots {
            count,
            running: Mutex::default(),
            users,
            are_stuck: AtomicBool::new(false),
            jobs,
        };
        (Arc::new(slots), giver)
    }

    pub(crate) fn all(&self) -> Vec<Arc<SlotState>> {
        lock(&self.running).clone()
    }

    /// Returns what they run.
    pub(crate) fn runs(&self) -> Vec<Arc<Run>> {
        let running = |slot_state: &Arc<SlotState>| lock(&slot_state.running).clone();
        self.all().iter().filter_map(running).collect()
    }

    /// Adds a slot. Returns its number.
    pub(crate) fn add(&self, slot: &Arc<SlotState>) -> usize {
        let mut running = lock(&self.running);
        running.push(Arc::clone(slot));
        running.len()
    }

    pub(crate) fn remove(&self, slot: &Arc<SlotState>) {
        lock(&self.running).retain(|other| !Arc::ptr_eq(other, slot));
    }

    /// Returns how many of the jobs that the slots want may be those of one queue, and how many one claim may take.
    pub(crate) fn allow(&self, user: &Arc<SlotUser>, wanted: usize) -> (usize, usize) {
        if self.are_stuck.load(Ordering::Relaxed) {
            return (0, 0);
        }
        let others = self.users.iter();
        let others = others.filter(|other| !Arc::ptr_eq(other, user));
        allowed(self.count, wanted, user.weight, others)
    }

    /// Whether queues of another weight could use more slots, so that a second claim would be unfair.
    pub(crate) fn have_other_weights(&self, user: &SlotUser) -> bool {
        let mut hungry = self.users.iter().filter(|it| it.is_hungry());
        hungry.any(|other| other.weight != user.weight)
    }
}

/// How much of what the slots want each of many queues may claim at least, so that claims of fast jobs stay large.
const LEAST_PART: usize = 8;

/// Returns how many of the `wanted` jobs a queue may hold: its share by weight of the slots that the others leave; and how
/// many one claim may take, by weight too, because slots that wait for jobs do not tell the queues apart.
fn allowed<'a>(
    slots: usize,
    wanted: usize,
    weight: u32,
    others: impl Iterator<Item = &'a Arc<SlotUser>>,
) -> (usize, usize) {
    let own = weight as usize;
    // The jobs of those that need no more, and the weights of this queue and of those that could use more slots.
    let (mut used, mut weights, mut heaviest) = (0, own, own);
    for other in others {
        if other.is_hungry() {
            weights += other.weight as usize;
            heaviest = heaviest.max(other.weight as usize);
        } else {
            used += other.in_flight.load(Ordering::Relaxed);
        }
    }
    let share = |of: usize, weights: usize| (of * own).div_ceil(weights);
    let left = wanted * slots.saturating_sub(used) / slots.max(1);
    let least = match wanted {
        // Two claims of jobs that take a few microseconds.
        wanted if wanted > 4 * MAX_BATCH => 2 * MAX_BATCH,
        wanted if wanted >= LEAST_PART * slots => wanted / LEAST_PART,
        _ => 0,
    };
    let part = share(left, weights).max(share(least, heaviest)).max(1);
    (part, share(MAX_BATCH, heaviest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn other(weight: u32, in_flight: usize, is_hungry: bool) -> Arc<SlotUser> {
        let user = SlotUser::new(weight);
        user.in_flight.store(in_flight, Ordering::Relaxed);
        user.set_hungry(is_hungry);
        user
    }

    #[test]
    fn queues_share_slots_by_weight_while_both_have_jobs() {
        for (wanted, weight, others, expected) in [
            (8, 1, vec![], (8, MAX_BATCH)),
            // Slow jobs.
            (8, 1, vec![other(1, 0, false)], (8, MAX_BATCH)),
            (8, 1, vec![other(1, 4, true)], (4, MAX_BATCH)),
            (8, 3, vec![other(1, 2, true)], (6, MAX_BATCH)),
            (8, 1, vec![other(3, 6, true)], (2, 334)),
            // What others use that need no more.
            (8, 1, vec![other(1, 3, false)], (5, MAX_BATCH)),
            (8, 1, vec![other(1, 8, false)], (1, MAX_BATCH)),
            (8, 1, vec![other(1, 2, false), other(2, 4, true)], (2, 500)),
            // More queues than slots.
            (8, 1, vec![other(1, 1, true); 99], (1, MAX_BATCH)),
            (8, 1, vec![other(1000, 9, true)], (1, 1)),
            // Fast jobs.
            (408, 1, vec![other(3, 300, true)], (102, 334)),
            (
                4008,
                1,
                vec![other(1, 500, true); 99],
                (2 * MAX_BATCH, MAX_BATCH),
            ),
            (4000, 1, vec![other(1, 500, true); 99], (500, MAX_BATCH)),
            (
                4008,
                1,
                vec![other(10, 500, true), other(1, 50, true)],
                (334, 100),
            ),
        ] {
            let given = allowed(8, wanted, weight, others.iter());
            assert_eq!(given, expected, "{wanted} {weight} {others:?}");
        }
    }
}
