//! An error of the driver or the server, without row data.
//!
//! The driver's error includes the server's details: `Key (email)=(…) already exists`, the row that
//! violated a constraint, the line of a COPY. They must not reach a log.

use std::error::Error as StdError;
use std::fmt;

use postgres::error::SqlState;

/// An error of the driver, as the source of an [`Error`](crate::Error).
#[derive(Debug)]
pub(crate) struct DriverError {
    state: Option<SqlState>,
    said: String,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl DriverError {
    /// Returns the SQLSTATE if the server reported the error.
    pub(crate) fn state(&self) -> Option<&SqlState> {
        self.state.as_ref()
    }
}

impl From<postgres::Error> for DriverError {
    fn from(error: postgres::Error) -> DriverError {
        match error.as_db_error() {
            // Without detail, hint and context.
            Some(server) => DriverError {
                state: Some(server.code().clone()),
                said: format!("{}: {}", server.severity(), server.message()),
                cause: None,
            },
            None => DriverError {
                state: None,
                said: error.to_string(),
                cause: error.into_source(),
            },
        }
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.said)
    }
}

impl StdError for DriverError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause
            .as_deref()
            .map(|cause| cause as &(dyn StdError + 'static))
    }
}
