//! The gates of a worker: open breakers, paused queues, queues with groups and rate limits, which one
//! statement reads.

use std::time::{Duration, SystemTime};

use crate::db::row::row;

row! {
    /// Something that holds back jobs.
    #[derive(PartialEq, Eq)]
    pub(crate) struct Gate {
        /// A breaker that is not closed, or `queue:` and the queue.
        pub(crate) name: String,
        /// `pause`, `groups` (jobs of the queue may wait for their group), `rate`, `group_rate` (a limit of each group),
        /// or the cause of a breaker.
        pub(crate) cause: String,
        pub(crate) kinds: Vec<String>,
        /// The time until the next probe, or until a pause ends. `None`: an operator must end it.
        pub(crate) probe_in: Option<Duration>,
        /// When a limit was set.
        pub(crate) set_at: Option<SystemTime>,
    }
}

/// A rate limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LimitStatus {
    /// The kind. `None`: all jobs of the queue.
    pub(crate) kind: Option<String>,
    /// When it was set. A worker that waits for tokens looks again after a change.
    pub(crate) set_at: Option<SystemTime>,
}
