//! The clock of the records: that of the machine, past every library that would fake it, so that
//! what actors, handlers and the server wrote can be merged.

use rustix::time::{ClockId, clock_gettime};

/// Microseconds since 1970.
pub(crate) fn now() -> i64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1000
}
