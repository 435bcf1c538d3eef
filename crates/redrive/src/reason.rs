//! Reasons: why a job became a dead letter. A closed list, the same in SQL, metrics and the CLI.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// Why a job became a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// Its attempts are used up: each failed or panicked.
    Exhausted,
    /// The handler said that no retry can help ([`Failure::reject`](crate::Failure::reject)).
    Rejected,
    /// Its payload is not what the handler of its kind takes.
    Undecodable,
    /// It was handed to a worker without a handler for its kind.
    Unhandled,
    /// Its last attempt overran the deadline.
    Timeout,
    /// Its worker went away too often while it ran: it probably kills its process.
    WorkerLost,
    /// It was too old to be run.
    Expired,
    /// It never was a job: a foreign failure that was captured.
    Captured,
    /// An operator cancelled it.
    Manual,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 9] = [
        Reason::Exhausted,
        Reason::Rejected,
        Reason::Undecodable,
        Reason::Unhandled,
        Reason::Timeout,
        Reason::WorkerLost,
        Reason::Expired,
        Reason::Captured,
        Reason::Manual,
    ];

    /// The word for it in the database, in metrics and in the CLI.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Exhausted => "exhausted",
            Reason::Rejected => "rejected",
            Reason::Undecodable => "undecodable",
            Reason::Unhandled => "unhandled",
            Reason::Timeout => "timeout",
            Reason::WorkerLost => "worker_lost",
            Reason::Expired => "expired",
            Reason::Captured => "captured",
            Reason::Manual => "manual",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Reason {
    type Err = Error;

    fn from_str(text: &str) -> Result<Reason> {
        Reason::ALL
            .into_iter()
            .find(|reason| reason.as_str() == text)
            .ok_or_else(|| {
                let known = Reason::ALL.map(Reason::as_str).join(", ");
                Error::invalid(format!(
                    "`{}` is not a reason; there are {known}",
                    text.escape_debug()
                ))
            })
    }
}
