//! Decides how long a worker may rely on its leases.

use std::time::Duration;

use crate::sync::Instant;
use crate::sync::atomic::{AtomicU64, Ordering};

/// How long the worker may rely on its leases, by its monotonic clock.
///
/// It counts nine tenths of a lease from the moment a renewal was *sent*, so it ends before the
/// database gives the leases to others.
#[derive(Debug)]
pub(crate) struct LeaseTrust {
    origin: Instant,
    until_ms: AtomicU64,
}

impl LeaseTrust {
    pub(crate) fn new() -> LeaseTrust {
        LeaseTrust {
            origin: Instant::now(),
            until_ms: AtomicU64::new(0),
        }
    }

    pub(crate) fn renewed(&self, sent_at: Instant, lease: Duration) {
        let until = (sent_at + lease * 9 / 10).saturating_duration_since(self.origin);
        let until = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
        self.until_ms.store(until, Ordering::Relaxed);
    }

    pub(crate) fn holds(&self, now: Instant) -> bool {
        let until = Duration::from_millis(self.until_ms.load(Ordering::Relaxed));
        now.saturating_duration_since(self.origin) < until
    }
}
