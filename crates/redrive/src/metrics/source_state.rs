//! Keeps the last result of each source and decides when to read it again. Pure.

use std::time::{Duration, Instant};

use crate::metrics::series::Key;
use crate::metrics::{Source, Value};

#[derive(Clone, Debug, Default)]
pub(crate) struct SourceState {
    /// The series of the last successful read.
    pub(crate) series: Vec<(Key, Value)>,
    /// True if the last due read succeeded.
    pub(crate) is_good: bool,
    /// Database time of the last successful read, in Unix seconds; 0 if there was none.
    pub(crate) good_at: f64,
    /// Duration of the last read.
    pub(crate) duration: Duration,
    /// Start of the last read.
    pub(crate) read_at: Option<Instant>,
}

impl SourceState {
    /// Returns whether the source must be read now. After a failure it is due within 15 seconds.
    pub(crate) fn is_due(&self, source: Source, now: Instant) -> bool {
        // Slightly below one minute and one hour, because scrapes do not come at exact intervals.
        let interval = match source {
            Source::Tables => Duration::from_secs(55),
            Source::Bloat => Duration::from_mins(59),
            Source::Totals
            | Source::Queues
            | Source::Letters
            | Source::Operations
            | Source::Server
            | Source::Reader => Duration::ZERO,
        };
        let interval = if self.is_good {
            interval
        } else {
            interval.min(Duration::from_secs(15))
        };
        self.read_at
            .is_none_or(|read_at| now.saturating_duration_since(read_at) >= interval)
    }
}
