//! Durations as the database takes them.

use std::time::Duration;

/// Returns whole milliseconds for the database, rounded up so that nothing is early.
pub(crate) fn milliseconds(time: Duration) -> i64 {
    let up = time.as_nanos().div_ceil(1_000_000);
    i64::try_from(up).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_rounded_up() {
        for (nanos, ms) in [(0, 0), (1, 1), (1_000_000, 1), (1_000_001, 2)] {
            assert_eq!(milliseconds(Duration::from_nanos(nanos)), ms, "{nanos}");
        }
        assert_eq!(milliseconds(Duration::MAX), i64::MAX);
    }
}
