//! Pauses: an operator stops the jobs of a queue from starting. Workers read them together with the breakers.

use std::time::{Duration, SystemTime};

use crate::db::sql;
use crate::error::Result;
use crate::job::operator::Operator;
use crate::pipeline::queue::Queue;

/// The statement is asked about ends from the year 970 to the year 2969.
const MAX_SINCE_EPOCH: Duration = Duration::from_hours(24 * 365_000);
const EPOCH: SystemTime = SystemTime::UNIX_EPOCH;

/// When a pause ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PauseEnd {
    /// When an operator resumes the queue.
    Resumed,
    /// After this time, of at most 3,650 days.
    After(Duration),
    /// At this time, which lies ahead by the clock of the database.
    At(SystemTime),
}

/// The pause of a queue, as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuePause {
    /// When it began.
    pub paused_at: SystemTime,
    /// When it ends; `None`: when an operator resumes the queue.
    pub ends_at: Option<SystemTime>,
    /// The operator who paused the queue, or last changed the pause.
    pub person: Option<String>,
    /// The reason.
    pub reason: Option<String>,
}

impl Queue {
    /// Pauses the queue in every process, so that no job of it starts until `end`.
    ///
    /// Running jobs finish, enqueues continue, and claimed jobs that have not started return to the
    /// queue without a charge. Workers learn of a pause by notification; behind a pooler in
    /// transaction mode, within a third of their lease, at most 10 seconds. A second pause replaces
    /// the end and the reason.
    ///
    /// The [guide](crate::_guide::outages) has an example.
    ///
    /// # Errors
    /// *Invalid* for an end that is not ahead, or more than 3,650 days ahead. Otherwise if the
    /// database does not answer.
    pub fn pause(&self, end: PauseEnd, operator: &Operator) -> Result<()> {
        let (ends_at, lasting) = match end {
            PauseEnd::Resumed => (None, None),
            PauseEnd::After(lasting) => (None, Some(lasting)),
            // The database judges times, of those that the statement can express.
            PauseEnd::At(at) => {
                let (first, last) = (EPOCH - MAX_SINCE_EPOCH, EPOCH + MAX_SINCE_EPOCH);
                (Some(at.clamp(first, last)), None)
            }
        };
        self.database().ask().one(
            &format!("pause queue `{}`", self.name()),
            &sql::PAUSE_QUEUE,
            &[&self.name(), &ends_at, &lasting, operator],
        )
    }

    /// Resumes the queue. Returns `false` if it was not paused.
    ///
    /// Idle workers claim at once. An open breaker of the queue stays open.
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn resume(&self, operator: &Operator) -> Result<bool> {
        self.database().ask().one(
            &format!("resume queue `{}`", self.name()),
            &sql::RESUME_QUEUE,
            &[&self.name(), operator],
        )
    }
}
