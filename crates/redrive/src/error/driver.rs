//! An error of the driver or the server, without row data.
//!
//! The driver's error includes the server's details: `Key (email)=(…) already exists`, the row that
//! violated a constraint, the line of a COPY. They must not reach a log.

use std::error::Error as StdError;
use std::fmt;

use postgres::error::{DbError, SqlState};

/// How a role gets what it lacks.
const GRANT: &str = "the owner of the schema grants a role what an app, enqueuer, worker, capturer, operator (for \
                     changes) or reader needs: SELECT redrive.grant_role('ROLE', 'PROFESSION'); only the \
                     owner migrates and protects queues";

/// The driver prepares each statement once per connection. If the name exists already, the connection is another one.
pub(crate) const SHARED: &str = "other programs use the same sessions, as behind a transaction-mode pooler; declare \
                      `Pooler::Transaction`, on the command line `--pooler transaction`";

/// An error of the driver, as the source of an [`Error`](crate::Error).
#[derive(Debug)]
pub(crate) struct DriverError {
    /// The SQLSTATE, and what [`place`] says, if the server reported the error.
    pub(super) state: Option<SqlState>,
    place: Option<String>,
    said: String,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

/// Returns the SQLSTATE and the violated constraint, if the server reported this error.
pub(crate) fn place_of(error: &(dyn StdError + 'static)) -> Option<String> {
    if let Some(error) = error.downcast_ref::<DriverError>() {
        return error.place.clone();
    }
    let error: &postgres::Error = error.downcast_ref()?;
    error.as_db_error().map(place)
}

fn place(error: &DbError) -> String {
    let code = error.code().code();
    let constraint = error.constraint();
    let constraint = constraint.map(|name| format!(", constraint `{name}`"));
    let schema = error.schema().map(|name| format!("{name}."));
    let schema = schema.unwrap_or_default();
    let table = error
        .table()
        .map(|name| format!(" of table `{schema}{name}`"));
    let (constraint, table) = (constraint.unwrap_or_default(), table.unwrap_or_default());
    format!("SQLSTATE {code}{constraint}{table}")
}

impl From<postgres::Error> for DriverError {
    fn from(error: postgres::Error) -> DriverError {
        match error.as_db_error() {
            // Without detail, hint and context.
            Some(server) => DriverError {
                state: Some(server.code().clone()),
                place: Some(place(server)),
                said: format!("{}: {}", server.severity(), server.message()),
                cause: match *server.code() {
                    // A protection or an approval refuses a role that has the privileges, and says so.
                    SqlState::INSUFFICIENT_PRIVILEGE
                        if !server.message().starts_with("redrive: ") =>
                    {
                        Some(GRANT.into())
                    }
                    SqlState::DUPLICATE_PSTATEMENT => Some(SHARED.into()),
                    _ => None,
                },
            },
            None => DriverError {
                state: None,
                place: None,
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
        Some(self.cause.as_deref()?)
    }
}
