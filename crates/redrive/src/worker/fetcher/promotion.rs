//! Promotes delayed jobs.

use std::time::Duration;

use super::{Fetcher, PROMOTE_EVERY, PROMOTE_EVERY_BUSY, ahead};
use crate::error::Result;
use crate::pipeline::promote::promote;
use crate::sync::Instant;

/// A promotion that failed after more would fail again.
const LONG: Duration = Duration::from_millis(25);

impl Fetcher {
    /// Promotes delayed jobs if one may be due.
    pub(super) fn promote_when_due(&mut self) -> Result<()> {
        let now = Instant::now();
        let every = match self.policy.is_notified() {
            true => PROMOTE_EVERY,
            // No notification announces delayed jobs.
            false => PROMOTE_EVERY_BUSY,
        };
        if self.due_at.is_some_and(|due_at| due_at <= now)
            || now.duration_since(self.promoted_at) >= every
            || self.whole_at.is_some_and(|at| at <= now)
        {
            self.promote()?;
        }
        Ok(())
    }

    /// Promotes delayed jobs. Returns whether there were any.
    pub(super) fn promote(&mut self) -> Result<bool> {
        let within = ahead(self.state.config.poll);
        let call = promote(self.state.queue(), within, self.promotion_failed);
        let asked_at = Instant::now();
        let promoted = self.claimer.call("promote delayed jobs", call);
        let now = Instant::now();
        let took = now.duration_since(asked_at);
        self.promotion_failed = match &promoted {
            Ok(_) => Duration::ZERO,
            Err(_) if took > LONG => self.promotion_failed + took,
            // Perhaps the connection was lost, which says nothing of the ones before.
            Err(_) => self.promotion_failed,
        };
        let promoted = promoted?;
        self.whole_at = promoted.whole_in_ms.map(|wait| now + wait);
        self.promoted_at = now;
        self.due_at = promoted.next_due_ms.map(|next_due| now + next_due);
        Ok(promoted.moved > 0)
    }
}
