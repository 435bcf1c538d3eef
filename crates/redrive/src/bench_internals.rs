//! Access to pure functions for the micro-benchmarks of this repository. Hidden, not part of the
//! API, and free to change.

use std::time::{Duration, Instant};

use crate::job::backoff::Backoff;
use crate::job::failure::Failure;
use crate::pipeline::buckets::{self, bucket};
use crate::pipeline::claim::demand::{self, Fill};
use crate::pipeline::claim::mark::{Marks, Scan, rank};
use crate::pipeline::judge::{self, JudgeContext, Verdict};
use crate::pipeline::outcome::Outcome;

/// Returns whether an attempt ends its job. `None`: the attempt succeeded.
pub fn judge(failure: Option<Failure>, attempt: u32, attempts: u32, backoff: &Backoff) -> bool {
    let context = JudgeContext {
        attempt,
        max_attempts: attempts,
        cancelled: false,
        backoff,
        outage_age: None,
        park: Duration::ZERO,
        random: 0.5,
    };
    let failed = failure.map(|failure| Outcome::Failed(failure).classify());
    match judge::judge(failed, &context) {
        Verdict::Done | Verdict::Dead { .. } => true,
        Verdict::Retry { .. }
        | Verdict::Snooze { .. }
        | Verdict::Refund { .. }
        | Verdict::Outage { .. } => false,
    }
}

/// Returns how many jobs to claim.
pub fn demand(slots: usize, run_time: Duration, in_hand: usize) -> usize {
    demand::demand(demand::wanted(slots, run_time), in_hand)
}

/// Returns how many ranges the claim after one of `jobs` jobs scans.
pub fn mark(jobs: i64, priorities: i16, now: Instant) -> usize {
    let mut marks = Marks::new();
    let ids = (0..jobs).zip((0..priorities).cycle());
    let claimed = ids.map(|(id, priority)| (rank(priority, 0), id));
    marks.note(
        Scan::Full,
        now,
        Duration::from_millis(9),
        Fill::Full,
        claimed,
    );
    marks.ranges(Scan::FromMarks, 0).len()
}

/// Returns the bucket of a wait.
pub fn wait_bucket(seconds: f64) -> i16 {
    bucket(buckets::SECONDS, seconds)
}
