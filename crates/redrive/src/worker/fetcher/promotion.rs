//! Promotes delayed jobs.

use super::{Fetcher, PROMOTE_EVERY, PROMOTE_EVERY_BUSY, ahead};
use crate::error::Result;
use crate::pipeline::promote::{MAX_PROMOTED, promote, store_delayed_mark};
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

    pub(super) fn promote(&mut self) -> Result<()> {
        // After a failure.
        self.store_mark()?;
        let queue = self.state.config.queue.shared_name();
        let within = ahead(self.state.config.poll);
        let asked_at = Instant::now();
        let pages = self.due.pages(asked_at);
        let promoted = self.call("promote delayed jobs", move |session| {
            promote(session, &queue, pages, within)
        });
        let now = Instant::now();
        let took = now.duration_since(asked_at);
        let promoted = match promoted {
            Ok(promoted) => promoted,
            Err(error) => {
                self.due.note_failure(asked_at, took);
                return Err(error);
            }
        };
        self.due.note(asked_at, took, promoted);
        self.promoted_at = now;
        self.due_at = match promoted.next_due {
            _ if promoted.moved >= MAX_PROMOTED => Some(now),
            next_due => next_due.map(|next_due| now + next_due),
        };
        self.store_mark()
    }

    /// Stores the mark from time to time.
    fn store_mark(&mut self) -> Result<()> {
        let Some(mark) = self.due.take_mark(Instant::now()) else {
            return Ok(());
        };
        let queue = self.state.config.queue.shared_name();
        self.call("store the mark of the delayed jobs", move |session| {
            store_delayed_mark(session, &queue, mark)
        })
    }
}
