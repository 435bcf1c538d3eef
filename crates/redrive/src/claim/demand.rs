//! Demand: how many jobs to claim now. Pure.
//!
//! A worker claims what its free slots can start now, plus what they will finish within
//! [`AHEAD`] at the observed run time. So slow jobs are claimed one a slot and never wait in one
//! process while another is idle, and instant jobs are claimed by the hundred, because then the
//! round trip is what costs.

use std::time::Duration;

/// How much work a worker holds in advance, in time.
const AHEAD: Duration = Duration::from_millis(50);

/// The most jobs that one claim takes.
pub(crate) const BATCH: usize = 1000;

/// How many jobs a worker with `slots` slots wants in hand, when a job runs for `run_time`.
pub(crate) fn wanted(slots: usize, run_time: Duration) -> usize {
    let per_slot = AHEAD.as_nanos() / run_time.as_nanos().max(1);
    let ahead = usize::try_from(per_slot)
        .unwrap_or(usize::MAX)
        .saturating_mul(slots);
    // Four batches: one that runs, one that waits, so that slots never run dry, and two that are
    // being claimed.
    slots.saturating_add(ahead.min(4 * BATCH))
}

/// How many of them to claim now, with `in_hand` claimed and not finished. 0: wait for room.
///
/// Below a quarter of room it waits: a claim for a few of many costs as much as one for all.
pub(crate) fn demand(wanted: usize, in_hand: usize) -> usize {
    let room = wanted.saturating_sub(in_hand);
    if room * 4 < wanted {
        0
    } else {
        room.min(BATCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_jobs_are_claimed_one_a_slot_and_fast_ones_by_the_hundred() {
        for (run_time, slots, expected) in [
            (Duration::from_secs(10), 8, 8),
            (Duration::from_millis(51), 8, 8),
            (Duration::from_millis(50), 8, 16),
            (Duration::from_millis(1), 4, 204),
            (Duration::from_micros(1), 2, 2 + 4 * BATCH),
            (Duration::ZERO, 1, 1 + 4 * BATCH),
            (Duration::MAX, 1, 1),
        ] {
            assert_eq!(
                wanted(slots, run_time),
                expected,
                "{run_time:?} on {slots} slots"
            );
        }
    }

    #[test]
    fn demand_is_the_room_there_is() {
        assert_eq!(demand(8, 0), 8);
        assert_eq!(demand(8, 6), 2);
        assert_eq!(demand(8, 7), 0, "too little room to ask for");
        assert_eq!(demand(1, 0), 1);
        assert_eq!(demand(1, 1), 0);
        assert_eq!(demand(8, 9), 0);
        assert_eq!(demand(1008, 8), BATCH);
    }
}
