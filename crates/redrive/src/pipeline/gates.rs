//! The gates of a worker: open breakers, paused queues, queues with groups and rate limits, which one
//! statement reads.

use std::time::Duration;

use crate::db::row::{read_all, row};
use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;

row! {
    /// Something that holds back jobs.
    #[derive(PartialEq, Eq)]
    pub(crate) struct Gate {
        /// A breaker that is not closed, or `queue:` and the queue.
        pub(crate) name: String,
        /// `pause`, `groups` (jobs of the queue may wait for their group), `rate`, or the cause of a breaker.
        pub(crate) cause: String,
        pub(crate) kinds: Vec<String>,
        /// How soon a job must start once it has a token of a limit.
        pub(crate) hold: Duration,
        /// The time until the next probe, or until a pause ends. `None`: an operator must end it.
        pub(crate) probe_in: Option<Duration>,
    }
}

/// A rate limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LimitStatus {
    /// Whether each group has it by itself.
    pub(crate) each_group: bool,
    /// The kind. `None`: all jobs of the queue, or of a group.
    pub(crate) kind: Option<String>,
    /// How soon a job must start once it has a token.
    pub(crate) hold: Duration,
}

impl Gate {
    /// Returns the rate limit that it is: that of a kind, of the whole queue (an empty one) or of each group (none).
    pub(crate) fn limit(&self) -> LimitStatus {
        let kind = self.kinds.first();
        LimitStatus {
            each_group: kind.is_none(),
            kind: kind.filter(|kind| !kind.is_empty()).cloned(),
            hold: self.hold,
        }
    }
}

/// Reads the gates.
pub(crate) fn read_gates(session: &mut Session) -> Result<Vec<Gate>> {
    let doing = "read the breakers, pauses and limits";
    read_all(&session.query(doing, &sql::OPEN_BREAKERS, &[])?)
}
