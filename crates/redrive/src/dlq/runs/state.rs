//! The states of a redrive run.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunState {
    /// It is large enough to need the approval of a second operator.
    Unapproved,
    /// A driver sends its letters, or a worker is about to take it over.
    Running,
    /// An operator paused it.
    Paused,
    /// Too many letters died again. Only an explicit resume continues it.
    Halted,
    /// An operator cancelled it.
    Cancelled,
    /// Every letter was tried. Some of the jobs may still run.
    Finished,
}

impl RunState {
    /// All states.
    pub const ALL: [RunState; 6] = [
        RunState::Unapproved,
        RunState::Running,
        RunState::Paused,
        RunState::Halted,
        RunState::Cancelled,
        RunState::Finished,
    ];

    /// Returns the name used in the database and by the CLI.
    pub fn as_str(self) -> &'static str {
        match self {
            RunState::Unapproved => "unapproved",
            RunState::Running => "running",
            RunState::Paused => "paused",
            RunState::Halted => "halted",
            RunState::Cancelled => "cancelled",
            RunState::Finished => "finished",
        }
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for RunState {
    type Err = Error;

    fn from_str(text: &str) -> Result<RunState> {
        RunState::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| Error::invalid(format!("unknown run state `{}`", text.escape_debug())))
    }
}
