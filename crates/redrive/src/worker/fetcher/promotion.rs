//! Promotes delayed jobs.

use super::{Fetcher, PROMOTE_EVERY, PROMOTE_EVERY_BUSY, ahead};
use crate::error::Result;
use crate::pipeline::promote::promote;
use crate::sync::Instant;

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
            || self.due.is_whole(now)
        {
            self.promote()?;
        }
        Ok(())
    }

    /// Promotes delayed jobs. Returns whether there were any.
    pub(super) fn promote(&mut self) -> Result<bool> {
        let queue = self.state.config.queue.shared_name();
        let within = ahead(self.state.config.poll);
        let asked_at = Instant::now();
        let (mark, pages) = (self.due.take_mark(asked_at), self.due.pages(asked_at));
        let promoted = self.claimer.call("promote delayed jobs", move |session| {
            promote(session, &queue, mark, pages, within)
        });
        let now = Instant::now();
        let took = now.duration_since(asked_at);
        let promoted = promoted.inspect_err(|_| self.due.note_failure(asked_at, took))?;
        self.due.note(asked_at, took, &promoted);
        self.promoted_at = now;
        self.due_at = match promoted.is_full() {
            true => Some(now),
            false => promoted.next_due_ms.map(|next_due| now + next_due),
        };
        Ok(promoted.moved > 0)
    }
}
