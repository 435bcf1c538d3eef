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
    refusal: Option<Refusal>,
    said: String,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

/// What the server reported about an error, without row data.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    state: SqlState,
    /// The violated constraint.
    constraint: Option<String>,
    /// The table of the constraint, with its schema.
    table: Option<String>,
}

impl Refusal {
    /// Returns what the server reported, if it reported this error.
    pub(crate) fn of(error: &(dyn StdError + 'static)) -> Option<Refusal> {
        if let Some(error) = error.downcast_ref::<DriverError>() {
            return error.refusal.clone();
        }
        let error: &postgres::Error = error.downcast_ref()?;
        error.as_db_error().map(Refusal::from)
    }
}

impl From<&DbError> for Refusal {
    fn from(error: &DbError) -> Refusal {
        let schema = error.schema().into_iter();
        let name: Vec<&str> = schema.chain(error.table()).collect();
        Refusal {
            state: error.code().clone(),
            constraint: error.constraint().map(str::to_owned),
            table: error.table().map(|_| name.join(".")),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SQLSTATE {}", self.state.code())?;
        if let Some(constraint) = &self.constraint {
            write!(f, ", constraint `{constraint}`")?;
        }
        match &self.table {
            Some(table) => write!(f, " of table `{table}`"),
            None => Ok(()),
        }
    }
}

impl DriverError {
    /// Returns the SQLSTATE if the server reported the error.
    pub(crate) fn state(&self) -> Option<&SqlState> {
        self.refusal.as_ref().map(|refusal| &refusal.state)
    }
}

impl From<postgres::Error> for DriverError {
    fn from(error: postgres::Error) -> DriverError {
        match error.as_db_error() {
            // Without detail, hint and context.
            Some(server) => DriverError {
                refusal: Some(Refusal::from(server)),
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
                refusal: None,
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
