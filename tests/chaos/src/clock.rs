//! The clock of all records. It asks the kernel directly, so that libfaketime cannot shift it and
//! the records of clients, handlers and server can be merged.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns microseconds since 1970.
pub(crate) fn now() -> i64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1000
}

/// Returns a duration in microseconds, as the records have times.
pub(crate) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}
