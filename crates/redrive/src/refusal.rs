//! What the driver or the server has against a call, without what may be in a row.
//!
//! The driver's own error tells the server's details too: `Key (email)=(…) already exists`, the
//! whole row that a constraint refused, the line of a COPY. Whoever logs an error would log that.

use std::error::Error as StdError;
use std::fmt;

use postgres::error::SqlState;

/// An error of the driver; a cause of [`Error`](crate::Error).
#[derive(Debug)]
pub(crate) struct Refusal {
    state: Option<SqlState>,
    said: String,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl Refusal {
    /// The SQLSTATE, when the server answered one.
    pub(crate) fn state(&self) -> Option<&SqlState> {
        self.state.as_ref()
    }
}

impl From<postgres::Error> for Refusal {
    fn from(error: postgres::Error) -> Refusal {
        match error.as_db_error() {
            // No detail, no hint, no context.
            Some(server) => Refusal {
                state: Some(server.code().clone()),
                said: format!("{}: {}", server.severity(), server.message()),
                cause: None,
            },
            None => Refusal {
                state: None,
                said: error.to_string(),
                cause: error.into_source(),
            },
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}

impl StdError for Refusal {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause
            .as_deref()
            .map(|cause| cause as &(dyn StdError + 'static))
    }
}
