//! Durations as the database takes them.

use std::time::Duration;

/// Returns whole milliseconds for the database, rounded up so that nothing is early.
pub(crate) fn milliseconds(time: Duration) -> i64 {
    let up = time.as_nanos().div_ceil(1_000_000);
    i64::try_from(up).unwrap_or(i64::MAX)
}
