//! Limits how fast the failures of each source are captured. Pure but for the clock.
//!
//! This is the generic cell rate algorithm (ITU-T I.371, annex A): each source has a time before which
//! its next failure is too early, and each failure moves that time on.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::dlq::capture::ForeignFailure;
use crate::sync::Instant;

/// The failures of this time may come at once.
const BURST: Duration = Duration::from_secs(1);

/// A limit for each source of captured failures. A flood from one source waits, and does not slow the
/// others down.
///
/// Sleep for [`wait`](CapturePace::wait) before each capture. Nothing is dropped: what is not captured
/// yet stays in its source, which is read more slowly.
///
/// ```
/// # use redrive::dlq::{CapturePace, ForeignFailure};
/// # use std::num::NonZeroU32;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// # db.migrate()?;
/// # let batches = [[ForeignFailure::new("kafka:orders", "3/1842", "orders", "order", "{}")]];
/// let mut pace = CapturePace::new(NonZeroU32::new(500).expect("not zero"));
/// for batch in &batches {
///     std::thread::sleep(pace.wait(batch));
///     db.dlq().capture_many(batch)?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct CapturePace {
    per_second: NonZeroU32,
    /// When the next failure of a source is on time.
    due: BTreeMap<String, Instant>,
}

impl CapturePace {
    /// Returns a limit of this many failures per second and source, after a burst of one second.
    pub fn new(per_second: NonZeroU32) -> CapturePace {
        CapturePace {
            per_second,
            due: BTreeMap::new(),
        }
    }

    /// Counts failures that are about to be captured, and returns the time to wait before that.
    pub fn wait(&mut self, failures: &[ForeignFailure]) -> Duration {
        let sources = failures.iter().map(|failure| &*failure.source);
        self.wait_at(sources, Instant::now())
    }

    fn wait_at<'a>(&mut self, sources: impl Iterator<Item = &'a str>, now: Instant) -> Duration {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for source in sources {
            *counts.entry(source).or_default() += 1;
        }
        // A source that is not late has its whole burst.
        self.due.retain(|_, due| *due > now);
        let mut wait = Duration::ZERO;
        for (source, count) in counts {
            let due = self.due.get(source).copied().unwrap_or(now);
            wait = wait.max(due.saturating_duration_since(now).saturating_sub(BURST));
            let time = Duration::from_secs(1) * count / self.per_second.get();
            self.due.insert(source.to_owned(), due + time);
        }
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_waits_once_it_has_used_its_burst() {
        let mut pace = CapturePace::new(NonZeroU32::new(10).expect("not zero"));
        let start = Instant::now();
        for (ms, source, failures, wait_ms) in [
            (0, "kafka", 10, 0),
            // The burst is used up, and five more take half a second.
            (0, "kafka", 5, 0),
            (0, "kafka", 5, 500),
            (0, "calm", 1, 0),
            (500, "kafka", 1, 500),
            // All is due after 2.1 s.
            (2100, "kafka", 10, 0),
            (2100, "kafka", 1, 0),
            (2100, "kafka", 1, 100),
        ] {
            let sources = std::iter::repeat_n(source, failures);
            let wait = pace.wait_at(sources, start + Duration::from_millis(ms));
            assert_eq!(wait.as_millis(), wait_ms, "{failures} at {ms} ms");
        }
        let slowest = pace.wait_at(["calm", "kafka"].into_iter(), start);
        assert!(
            slowest > Duration::ZERO,
            "a batch waits for its slowest source"
        );
    }
}
