//! Causes of death. A closed list, identical in SQL, metrics and the CLI.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// Why a job became a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeathCause {
    /// All attempts failed or panicked.
    Exhausted,
    /// The handler rejected the job ([`Failure::reject`](crate::Failure::reject)).
    Rejected,
    /// The payload does not match the type of its handler.
    Undecodable,
    /// A worker without a handler for the kind received the job, or no live worker handled the kind
    /// for the [configured time](crate::WorkerBuilder::unhandled_after).
    Unhandled,
    /// The last attempt exceeded its deadline.
    Timeout,
    /// Three workers were lost while they ran the job. It probably crashes its process.
    WorkerLost,
    /// The job did not start in time ([`NewJob::expires_in`](crate::NewJob::expires_in)).
    Expired,
    /// A failure from another system that was captured. It never was a job.
    Captured,
    /// An operator cancelled the job.
    Manual,
    /// An earlier job of its group is dead, and the policy of the queue is
    /// [`Divert`](crate::GroupDeath::Divert). The job was not attempted.
    Diverted,
}

impl DeathCause {
    /// Every cause.
    pub const ALL: [DeathCause; 10] = [
        DeathCause::Exhausted,
        DeathCause::Rejected,
        DeathCause::Undecodable,
        DeathCause::Unhandled,
        DeathCause::Timeout,
        DeathCause::WorkerLost,
        DeathCause::Expired,
        DeathCause::Captured,
        DeathCause::Manual,
        DeathCause::Diverted,
    ];

    /// Returns the name used in the database, in metrics and in the CLI.
    pub fn as_str(self) -> &'static str {
        match self {
            DeathCause::Exhausted => "exhausted",
            DeathCause::Rejected => "rejected",
            DeathCause::Undecodable => "undecodable",
            DeathCause::Unhandled => "unhandled",
            DeathCause::Timeout => "timeout",
            DeathCause::WorkerLost => "worker_lost",
            DeathCause::Expired => "expired",
            DeathCause::Captured => "captured",
            DeathCause::Manual => "manual",
            DeathCause::Diverted => "diverted",
        }
    }
}

impl fmt::Display for DeathCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for DeathCause {
    type Err = Error;

    fn from_str(text: &str) -> Result<DeathCause> {
        DeathCause::ALL
            .into_iter()
            .find(|cause| cause.as_str() == text)
            .ok_or_else(|| {
                let known = DeathCause::ALL.map(DeathCause::as_str).join(", ");
                Error::invalid(format!(
                    "unknown cause `{}`; expected one of {known}",
                    text.escape_debug()
                ))
            })
    }
}
