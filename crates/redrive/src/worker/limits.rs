//! The settings of a worker: what each is unless told otherwise, and the least and the most of it.
//!
//! `GUARANTEES.md` publishes them; a test compares the two.

use std::time::Duration;

use crate::pooler::Pooler;

/// How long after its last renewal a worker is taken for lost.
pub(crate) const LEASE: Duration = Duration::from_mins(1);
pub(crate) const SHORTEST_LEASE: Duration = Duration::from_secs(2);
pub(crate) const LONGEST_LEASE: Duration = Duration::from_hours(1);

/// How many renewals there are in a lease time.
pub(crate) const RENEWALS: u32 = 3;

/// How often a worker looks for jobs when nothing tells it.
pub(crate) const POLL: Duration = Duration::from_secs(3);
/// The same behind a pooler in transaction mode, where nothing ever tells it: half a second until a
/// job that comes after a quiet time begins, for a claim a second of a worker that idles.
pub(crate) const UNTOLD_POLL: Duration = Duration::from_secs(1);
pub(crate) const SHORTEST_POLL: Duration = Duration::from_millis(5);
pub(crate) const LONGEST_POLL: Duration = Duration::from_mins(1);

/// For how long jobs may wait behind slow ones in one worker.
pub(crate) const HOLD_FOR: Duration = Duration::from_millis(100);
pub(crate) const SHORTEST_HOLD: Duration = Duration::from_millis(10);
pub(crate) const LONGEST_HOLD: Duration = Duration::from_hours(24);

/// How long a handler may run.
pub(crate) const DEADLINE: Duration = Duration::from_mins(15);
pub(crate) const SHORTEST_DEADLINE: Duration = Duration::from_millis(1);
pub(crate) const LONGEST_DEADLINE: Duration = Duration::from_hours(24);

/// After how many outages in a row a breaker opens.
pub(crate) const TRIP_AFTER: u32 = 5;
pub(crate) const MOST_TRIP_AFTER: u32 = 1000;

/// How many slots a worker may have.
pub(crate) const MOST_SLOTS: usize = 10_000;

/// How often a worker behind this looks for jobs when nothing tells it.
pub(crate) fn poll(pooler: Pooler) -> Duration {
    match pooler {
        Pooler::Session => POLL,
        Pooler::Transaction => UNTOLD_POLL,
    }
}
