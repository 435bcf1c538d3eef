//! The behavior of a tick while an earlier job is live.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The behavior of a tick while an earlier job of the schedule is ready, running or waiting for a retry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Overlap {
    /// The tick enqueues its job.
    #[default]
    Allow,
    /// The tick is skipped.
    ///
    /// The job holds a [unique key](crate::NewJob::unique) of its queue while it is live. Its dead letter
    /// does not, but a redriven job does. Jobs that were enqueued before this setting hold no key.
    Skip,
}

impl Overlap {
    /// All settings.
    pub const ALL: [Overlap; 2] = [Overlap::Allow, Overlap::Skip];

    /// Returns the name used in the database and by the CLI.
    pub fn as_str(self) -> &'static str {
        match self {
            Overlap::Allow => "allow",
            Overlap::Skip => "skip",
        }
    }
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Overlap {
    type Err = Error;

    fn from_str(text: &str) -> Result<Overlap> {
        Overlap::ALL
            .into_iter()
            .find(|overlap| overlap.as_str() == text)
            .ok_or_else(|| {
                Error::invalid(format!(
                    "unknown overlap `{}`; expected allow or skip",
                    text.escape_debug()
                ))
            })
    }
}
