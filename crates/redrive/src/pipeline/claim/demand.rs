//! Demand: how many jobs to claim. Pure.
//!
//! A worker claims what its free slots can start now, plus what they will finish within [`AHEAD`]
//! at the observed run time. Slow jobs are thus claimed one per slot and never wait in one process
//! while another is idle; fast jobs are claimed by the hundred, because the round trip dominates.

use std::time::Duration;

/// How much work a worker holds in advance.
const AHEAD: Duration = Duration::from_millis(50);

/// The maximum number of jobs of one claim.
pub(crate) const MAX_BATCH: usize = 1000;

/// The number of verdicts to write from which a worker claims no more jobs. Their jobs run again after a crash.
pub(crate) const MAX_UNWRITTEN: usize = 5 * MAX_BATCH;

/// Returns how many jobs a worker with `slots` slots wants to hold when a job takes `run_time`.
pub(crate) fn wanted(slots: usize, run_time: Duration) -> usize {
    let per_slot = AHEAD.as_nanos() / run_time.as_nanos().max(1);
    let ahead = usize::try_from(per_slot)
        .unwrap_or(usize::MAX)
        .saturating_mul(slots);
    // Four batches: one running, one waiting, and two being claimed, so that slots never run dry.
    slots.saturating_add(ahead.min(4 * MAX_BATCH))
}

/// Returns how many jobs there is room for with `in_hand` claimed and unfinished.
pub(crate) fn room(wanted: usize, in_hand: usize) -> usize {
    wanted.saturating_sub(in_hand).min(MAX_BATCH)
}

/// Returns how many jobs to claim soon after another claim. 0: wait for more room, but not for long.
///
/// That is a quarter, because a claim of a few jobs costs as much as one of many.
pub(crate) fn demand(wanted: usize, in_hand: usize) -> usize {
    match wanted.saturating_sub(in_hand) * 4 < wanted {
        true => 0,
        false => room(wanted, in_hand),
    }
}

/// Returns how many jobs to claim if some of them run in batches, where `demand` is the demand with
/// each batch counted as one job.
///
/// `missing` jobs would fill the batches that are being gathered. `size` is the size of the batches
/// of the last claim: a free slot may take another one.
pub(crate) fn with_batches(demand: usize, missing: usize, size: usize) -> usize {
    let opened = match demand {
        0 => 0,
        _ => demand.max(size),
    };
    missing.max(opened).min(MAX_BATCH)
}

/// The maximum number of jobs of a chunk.
pub(crate) const MAX_CHUNK: usize = 32;
/// The maximum number of jobs of a group in a row. More than a chunk, because each group costs a claim more than a job does.
pub(crate) const MAX_IN_A_ROW: usize = 2 * MAX_CHUNK;
/// Jobs that run at least this long reach the slots one by one.
pub(crate) const SLOW: Duration = Duration::from_millis(1);

/// Returns how many of `jobs` claimed jobs a slot takes at a time, or how many of a group a claim takes before those of
/// the next one: at most `most`. 1: jobs are slow.
///
/// Handing over a fast job costs more than running it. Each slot gets several chunks of a claim, so
/// that none of them ends up with the last jobs.
pub(crate) fn part(jobs: usize, slots: usize, run_time: Duration, most: usize) -> usize {
    match run_time < SLOW {
        true => (jobs / (4 * slots).max(1)).clamp(1, most),
        false => 1,
    }
}

/// Whether a claim returned as many jobs as it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    /// As many as it asked for: there may be more.
    Full,
    /// Fewer: nothing is left where it looked.
    Partial,
}

impl Fill {
    pub(crate) fn of(claimed: usize, limit: usize) -> Fill {
        match claimed < limit {
            true => Fill::Partial,
            false => Fill::Full,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_jobs_are_claimed_one_per_slot_and_fast_ones_by_the_hundred() {
        for (run_time, slots, expected) in [
            (Duration::from_secs(10), 8, 8),
            (Duration::from_millis(51), 8, 8),
            (Duration::from_millis(50), 8, 16),
            (Duration::from_millis(1), 4, 204),
            (Duration::from_micros(1), 2, 2 + 4 * MAX_BATCH),
            (Duration::ZERO, 1, 1 + 4 * MAX_BATCH),
            (Duration::MAX, 1, 1),
        ] {
            let wanted = wanted(slots, run_time);
            assert_eq!(wanted, expected, "{run_time:?} on {slots} slots");
        }
    }

    #[test]
    fn demand_is_the_free_room() {
        assert_eq!(demand(8, 0), 8);
        assert_eq!(demand(8, 6), 2);
        assert_eq!(demand(8, 7), 0, "too little room to ask for");
        assert_eq!(room(8, 7), 1);
        assert_eq!(demand(1, 0), 1);
        assert_eq!(demand(1, 1), 0);
        assert_eq!(demand(8, 9), 0);
        assert_eq!(demand(1008, 8), MAX_BATCH);
    }

    #[test]
    fn a_batch_is_filled_even_if_no_slot_is_free() {
        for (demand, missing, size, expected) in [
            (0, 0, 100, 0),
            (1, 0, 100, 100),
            (1, 0, 0, 1),
            (0, 30, 100, 30),
            (0, 30, 0, 30),
            (2, 30, 100, 100),
            (200, 30, 100, 200),
            (1, 0, 5000, MAX_BATCH),
            (0, 5000, 0, MAX_BATCH),
        ] {
            let claimed = with_batches(demand, missing, size);
            assert_eq!(claimed, expected, "{demand} {missing} {size}");
        }
    }

    #[test]
    fn fast_jobs_are_taken_in_parts_and_slow_ones_one_by_one() {
        let fast = Duration::from_micros(50);
        for (jobs, slots, run_time, expected) in [
            (1000, 8, fast, 31),
            (1000, 1, fast, MAX_CHUNK),
            (100, 8, fast, 3),
            // A few jobs are spread over the slots.
            (8, 8, fast, 1),
            (1, 1, fast, 1),
            (1000, 1, SLOW, 1),
            // No job has ended yet.
            (1000, 1, Duration::MAX, 1),
        ] {
            let part = part(jobs, slots, run_time, MAX_CHUNK);
            assert_eq!(part, expected, "{jobs} {slots} {run_time:?}");
        }
    }
}
