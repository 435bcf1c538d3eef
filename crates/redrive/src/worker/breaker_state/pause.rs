//! The pause of the worker's queue. Pure.

use crate::pipeline::gates::PauseStatus;
use crate::sync::Instant;

/// Whether the queue is paused, as far as this worker knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LocalPause {
    #[default]
    No,
    /// Until an operator resumes the queue.
    UntilResumed,
    /// Until this moment, which this worker's clock finds without the database.
    Until(Instant),
}

impl LocalPause {
    /// Returns the pause of the queue with the breaker `name`, among those of all queues.
    pub(super) fn of(name: &str, pauses: &[PauseStatus], now: Instant) -> LocalPause {
        match pauses.iter().find(|pause| pause.name == name) {
            None => LocalPause::No,
            Some(pause) => pause
                .ends_in
                .and_then(|ahead| now.checked_add(ahead))
                .map_or(LocalPause::UntilResumed, LocalPause::Until),
        }
    }

    pub(super) fn is_on(self, now: Instant) -> bool {
        match self {
            LocalPause::No => false,
            LocalPause::UntilResumed => true,
            LocalPause::Until(end) => now < end,
        }
    }

    /// Returns when it ends without an operator.
    pub(super) fn ends_at(self) -> Option<Instant> {
        match self {
            LocalPause::No | LocalPause::UntilResumed => None,
            LocalPause::Until(end) => Some(end),
        }
    }
}
