//! Doors to pure parts for the micro-benchmarks of this repository. No part of the API: hidden, and
//! free to change or go at any time.

use std::time::{Duration, Instant};

use crate::backoff::Backoff;
use crate::claim::demand;
use crate::claim::mark::{Got, Look, Marks};
use crate::failure::Failure;
use crate::judge::{self, Circumstances, Outcome, Verdict};
use crate::metrics::{BOUNDS, bucket};

/// Whether an attempt ends its job. `None`: it succeeded.
pub fn judge(failure: Option<Failure>, attempt: u32, attempts: u32, backoff: &Backoff) -> bool {
    let circumstances = Circumstances {
        attempt,
        max_attempts: attempts,
        cancelled: false,
        backoff,
        outage_age: None,
        park: Duration::ZERO,
        random: 0.5,
    };
    let outcome = failure.map_or(Outcome::Done, Outcome::Failed);
    match judge::judge(outcome, &circumstances) {
        Verdict::Done | Verdict::Dead { .. } => true,
        Verdict::Retry { .. } | Verdict::Snooze { .. } | Verdict::Outage { .. } => false,
    }
}

/// How many jobs to claim.
pub fn demand(slots: usize, run_time: Duration, in_hand: usize) -> usize {
    demand::demand(demand::wanted(slots, run_time), in_hand)
}

/// How many ranges the next claim looks at after one of so many jobs of so many priorities.
pub fn mark(jobs: i64, priorities: i16, now: Instant) -> usize {
    let mut marks = Marks::new();
    let ids = (0..jobs).zip((0..priorities).cycle());
    let claimed = ids.map(|(id, priority)| (priority, id));
    marks.note(
        Look::Full,
        now,
        Duration::from_millis(9),
        Got::Enough,
        claimed,
    );
    marks.ranges(Look::Marked, 0).len()
}

/// The bucket of a wait.
pub fn wait_bucket(seconds: f64) -> i16 {
    bucket(BOUNDS.wait, seconds)
}
