//! The states of a live job.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The state of a live job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JobState {
    /// Ready to be claimed.
    Ready,
    /// Scheduled, backing off or snoozed.
    Delayed,
    /// Leased by a worker.
    Leased,
}

impl JobState {
    /// All states.
    pub const ALL: [JobState; 3] = [JobState::Ready, JobState::Delayed, JobState::Leased];

    /// Returns the name used in the database, in metrics and by the CLI.
    pub fn as_str(self) -> &'static str {
        match self {
            JobState::Ready => "ready",
            JobState::Delayed => "delayed",
            JobState::Leased => "leased",
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for JobState {
    type Err = Error;

    fn from_str(text: &str) -> Result<JobState> {
        JobState::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| {
                let known = JobState::ALL.map(JobState::as_str).join(", ");
                Error::invalid(format!(
                    "unknown job state `{}`; expected one of {known}",
                    text.escape_debug()
                ))
            })
    }
}
