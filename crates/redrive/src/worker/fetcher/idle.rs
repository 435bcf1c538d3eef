//! Polls for several idle queues with one statement.

use std::time::Duration;

use super::{Fetcher, Next, ahead};
use crate::db::ask::all;
use crate::db::row::row;
use crate::db::sql;
use crate::pipeline::claim::windows::LONG;
use crate::sync::Instant;

/// After a slow look, the queues poll for themselves for this many times as long, because a claim bounds what it reads
/// and a look does not.
const SHARE: u32 = 100;

row! {
    /// What a look found in a queue.
    struct Found {
        queue: String,
        has_jobs: bool,
        /// The time until the next delayed job is due.
        due_ms: Option<Duration>,
    }
}

/// Looks at all idle queues once the first of several polls, not before `look_at`, and lets only those poll that have
/// jobs.
pub(super) fn poll(fetchers: &mut [Fetcher], look_at: &mut Instant) {
    let asked_at = Instant::now();
    let is_idle = |fetcher: &&mut Fetcher| fetcher.is_idle(asked_at);
    let mut idle: Vec<&mut Fetcher> = fetchers.iter_mut().filter(is_idle).collect();
    let is_due = idle.iter().any(|fetcher| fetcher.is_due(asked_at));
    if idle.len() < 2 || !is_due || asked_at < *look_at {
        return;
    }
    let queues = idle.iter().map(|fetcher| fetcher.state.queue().to_owned());
    let queues: Vec<String> = queues.collect();
    let doing = "look at the idle queues";
    let found = idle[0]
        .claimer
        .call(doing, all(doing, &sql::IDLE_QUEUES, &[&queues]));
    let now = Instant::now();
    if now.duration_since(asked_at) > LONG {
        *look_at = now + now.duration_since(asked_at) * SHARE;
    }
    let found: Vec<Found> = match found {
        Ok(found) => found,
        // The queues poll for themselves.
        Err(error) => return idle[0].state.report_error(&error, Duration::ZERO),
    };
    for fetcher in &mut idle {
        let of_queue = found.iter().find(|one| one.queue == fetcher.state.queue());
        match of_queue {
            Some(found) if !found.has_jobs => fetcher.stay_idle(asked_at, found.due_ms),
            Some(_) | None => fetcher.next = Next::once_there_is_room(),
        }
    }
}

impl Fetcher {
    /// Whether it waits for nothing but its poll and a notification.
    fn is_idle(&self, now: Instant) -> bool {
        self.only_polls
            && matches!(self.next, Next::News(_))
            && !self.state.has_news()
            && self.due_at.is_none_or(|due_at| due_at > now)
    }

    /// Waits for the next poll, or for the next delayed job.
    fn stay_idle(&mut self, looked_at: Instant, next_due: Option<Duration>) {
        self.promoted_at = looked_at;
        let within = ahead(self.state.config.poll);
        let next_due = next_due.filter(|due| *due < within);
        self.due_at = next_due.map(|due| looked_at + due);
        self.next = Next::News(Instant::now() + self.wait_for_jobs());
    }
}
