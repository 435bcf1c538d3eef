//! Defaults and ranges of a worker's settings. A test compares those of GUARANTEES.md.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::db::pooler::Pooler;

const DAY: Duration = Duration::from_hours(24);

/// After this long without a renewal a worker is presumed dead.
pub(crate) const DEFAULT_LEASE: Duration = Duration::from_mins(1);
pub(crate) const LEASE: RangeInclusive<Duration> = Duration::from_secs(2)..=Duration::from_hours(1);

/// How often a worker renews per lease.
pub(crate) const RENEWALS_PER_LEASE: u32 = 3;

/// The longest time between checks for lost workers.
pub(crate) const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// How often an idle worker polls without notifications.
pub(crate) const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(3);
/// The default behind a transaction-mode pooler, which forwards no notifications: the first job after a
/// pause starts after half a second on average.
pub(crate) const DEFAULT_POOLER_POLL_INTERVAL: Duration = Duration::from_secs(1);
pub(crate) const POLL: RangeInclusive<Duration> = Duration::from_millis(5)..=Duration::from_mins(1);

/// How long jobs may wait behind slow ones in one worker.
pub(crate) const DEFAULT_HOLD_TIME: Duration = Duration::from_millis(100);
pub(crate) const HOLD: RangeInclusive<Duration> = Duration::from_millis(10)..=DAY;

/// How long a handler may run.
pub(crate) const DEFAULT_DEADLINE: Duration = Duration::from_mins(15);
pub(crate) const DEADLINE: RangeInclusive<Duration> = Duration::from_millis(1)..=DAY;

/// How long no live worker must have handled a kind before its jobs may die, and how long a ready job must have waited
/// before its priority may rise.
pub(crate) const WAIT: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_hours(30 * 24);

/// How many outages in a row open a breaker.
pub(crate) const DEFAULT_BREAKER_THRESHOLD: u32 = 5;
pub(crate) const THRESHOLDS: RangeInclusive<usize> = 1..=1000;

/// How many letters within which time the flood guard allows.
pub(crate) const LETTERS: RangeInclusive<usize> = 1..=1_000_000;
pub(crate) const PER: RangeInclusive<Duration> = Duration::from_secs(1)..=DAY;

/// The maximum number of jobs of a batch: as many as a claim returns.
pub(crate) const MAX_BATCH_SIZE: usize = 1000;

/// How long the first job of a batch waits for more jobs.
pub(crate) const DEFAULT_LINGER: Duration = Duration::from_millis(100);
pub(crate) const LINGER: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_mins(1);

/// The number of slots.
pub(crate) const SLOTS: RangeInclusive<usize> = 1..=10_000;
/// The weight of a queue that shares slots.
pub(crate) const WEIGHTS: RangeInclusive<usize> = 1..=1000;

/// The longest pause after a database error.
pub(crate) const MAX_PAUSE: Duration = Duration::from_secs(5);

/// How often a worker with this lease looks for chores and reads the breakers and pauses.
pub(crate) fn check_interval(lease: Duration) -> Duration {
    MAX_CHECK_INTERVAL.min(lease / RENEWALS_PER_LEASE)
}

/// Returns the default poll interval behind this pooler.
pub(crate) fn poll(pooler: Pooler) -> Duration {
    match pooler {
        Pooler::Session => DEFAULT_POLL_INTERVAL,
        Pooler::Transaction => DEFAULT_POOLER_POLL_INTERVAL,
    }
}
