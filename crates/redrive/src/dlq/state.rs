//! The states of a dead letter.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The state of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LetterState {
    /// The letter awaits a decision. A death opens it; a redrive or discard closes it.
    Open,
    /// The letter was redriven and its job is live again.
    Redriving,
    /// The job succeeded after a redrive. Retention or a prune may delete the letter.
    Recovered,
    /// An operator closed the letter. Retention or a prune may delete it.
    Discarded,
    /// The letter died of the same failure after repeated redrives. Only a forced redrive moves it.
    Quarantined,
}

impl LetterState {
    /// All states.
    pub const ALL: [LetterState; 5] = [
        LetterState::Open,
        LetterState::Redriving,
        LetterState::Recovered,
        LetterState::Discarded,
        LetterState::Quarantined,
    ];

    /// Returns the name used in the database, in metrics and by the CLI.
    pub fn as_str(self) -> &'static str {
        match self {
            LetterState::Open => "open",
            LetterState::Redriving => "redriving",
            LetterState::Recovered => "recovered",
            LetterState::Discarded => "discarded",
            LetterState::Quarantined => "quarantined",
        }
    }
}

impl fmt::Display for LetterState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for LetterState {
    type Err = Error;

    fn from_str(text: &str) -> Result<LetterState> {
        LetterState::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| {
                let known = LetterState::ALL.map(LetterState::as_str).join(", ");
                Error::invalid(format!(
                    "unknown letter state `{}`; expected one of {known}",
                    text.escape_debug()
                ))
            })
    }
}
