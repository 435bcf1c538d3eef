//! Reports about a redrive run that a command follows, every 10 seconds.

use std::time::{Duration, Instant};

use redrive::dlq::runs::RunId;

use super::blocked::blocks;
use super::run_report::outcomes;
use crate::prelude::*;
use crate::terminal::Progress;

/// The interval between two reports.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// The reports about a run that a command follows.
#[derive(Default)]
pub(super) struct Reports {
    reported_at: Option<Instant>,
    /// The breakers and missing workers of the last report.
    blocked_by: Vec<String>,
}

impl Reports {
    /// Looks at the run every 10 seconds. Shows what blocks its jobs beside the progress bar.
    /// Returns the line if it must be printed: off a terminal, and if something new blocks the jobs.
    pub(super) fn next(
        &mut self,
        db: &Database,
        id: RunId,
        progress: &Progress,
    ) -> redrive::Result<Option<String>> {
        let is_early = |at: Instant| at.elapsed() < REPORT_EVERY;
        if self.reported_at.is_some_and(is_early) {
            return Ok(None);
        }
        let Some(run) = db.dlq().runs().get(id)? else {
            return Ok(None);
        };
        let blocked = db.dlq().runs().blocked(id)?;
        let blocks = blocks(&blocked);
        let mut line = outcomes(&run);
        for block in &blocks {
            line.extend(["; ", &*block.because]);
        }
        let by: Vec<String> = blocks.into_iter().map(|block| block.id).collect();
        let is_first = self.reported_at.is_none();
        let is_newly_blocked = !by.is_empty() && by != self.blocked_by;
        self.reported_at = Some(Instant::now());
        self.blocked_by = by;
        if self.is_blocked() {
            progress.show(&*line);
        }
        // Without a terminal there is no bar. The first report would only repeat the command.
        let is_printed = is_newly_blocked || (!is_first && !progress.is_drawn());
        Ok(is_printed.then_some(line))
    }

    /// Whether a breaker or a missing worker blocked jobs at the last report.
    pub(super) fn is_blocked(&self) -> bool {
        !self.blocked_by.is_empty()
    }
}
