//! The error type of the library: opaque, queried with predicates.
//!
//! `Display` names the operation and its subject; the cause is in
//! [`source`](std::error::Error::source), and `{:#}` adds it. A lost lease, an empty queue and a filter without matches
//! are values, not errors. An error never contains row data or a URL.

pub(crate) mod driver;

use std::error::Error as StdError;
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use postgres::error::SqlState;

use crate::error::driver::DriverError;

/// The result type of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this library.
///
/// The kinds are private, so that new ones break no program. Use the predicates. `{:#}` displays the
/// causes too, in one line. Where it says that *the database fails*, the database rejects a statement, cannot be
/// reached, or does not answer in time. What an operation has committed in batches before an error stays.
#[derive(Clone, Debug)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: Kind,
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Invalid,
    Unavailable,
    /// Unavailable after the call was sent, so that it may have taken effect.
    Lost,
    MigrationRequired,
    Database,
}

impl Error {
    /// Returns whether the input was invalid: a name, a payload, a delay, a configuration.
    ///
    /// Nothing was stored. The same call fails again.
    pub fn is_invalid(&self) -> bool {
        self.0.kind == Kind::Invalid
    }

    /// Returns whether the database could not be reached or did not answer in time.
    ///
    /// The same call may succeed later. If the answer to a write was lost, the write may have taken
    /// effect. All writes of redrive are safe to repeat, except an enqueue without a unique key,
    /// which stores a second job.
    pub fn is_unavailable(&self) -> bool {
        matches!(self.0.kind, Kind::Unavailable | Kind::Lost)
    }

    /// Returns whether the schema is missing or older than this library. Run the migrations.
    pub fn is_migration_required(&self) -> bool {
        self.0.kind == Kind::MigrationRequired
    }

    /// Returns the SQLSTATE if the server reported the error.
    pub fn sql_state(&self) -> Option<&SqlState> {
        let mut cause = self.source();
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<DriverError>() {
                return error.state.as_ref();
            }
            cause = error.source();
        }
        None
    }

    /// Whether the call was sent and its answer was lost.
    pub(crate) fn is_lost(&self) -> bool {
        self.0.kind == Kind::Lost
    }

    /// The answer to a call that was sent did not arrive.
    pub(crate) fn lost(message: impl Into<String>) -> Error {
        Error::new(Kind::Lost, message)
    }

    /// Says also what the loss of the answer means.
    pub(crate) fn if_lost(mut self, note: &str) -> Error {
        if self.is_lost() {
            self.0.message = format!("{self}; {note}");
        }
        self
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::new(Kind::Invalid, message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Error {
        Error::new(Kind::Unavailable, message)
    }

    /// The database is set up so that the operation would go wrong.
    pub(crate) fn refused(message: impl Into<String>) -> Error {
        Error::new(Kind::Database, message)
    }

    pub(crate) fn migration_required(message: impl Into<String>) -> Error {
        Error::new(Kind::MigrationRequired, message)
    }

    /// Returns the last cause as text: what the server, the driver or the operating system said.
    pub(crate) fn cause(&self) -> String {
        let mut cause: &dyn StdError = self;
        while let Some(deeper) = cause.source() {
            if cause.is::<DriverError>() && self.sql_state().is_some() {
                // The rest is advice.
                return format!("{cause}: {deeper}");
            }
            cause = deeper;
        }
        cause.to_string()
    }

    /// Returns whether the server rolled a transaction back for the sake of another one.
    pub(crate) fn is_victim(&self) -> bool {
        // A deadlock, or a failure to serialize.
        self.sql_state()
            .is_some_and(|state| ["40P01", "40001"].contains(&state.code()))
    }

    /// Returns whether the call waited too long for a lock.
    pub(crate) fn is_locked(&self) -> bool {
        self.sql_state() == Some(&SqlState::LOCK_NOT_AVAILABLE)
    }

    /// Says also what to do.
    pub(crate) fn with_advice(mut self, advice: &str) -> Error {
        self.0.message = format!("{self}: {advice}");
        self
    }

    pub(crate) fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// Converts an error of the driver while connecting or migrating, which does not say to migrate.
    pub(crate) fn from_setup(doing: &str, source: postgres::Error) -> Error {
        let kind = kind_of_source(&source);
        let kind = match kind == Kind::MigrationRequired {
            true => Kind::Database,
            false => kind,
        };
        Error::of_kind(kind, doing, source)
    }

    /// Converts an error of the driver. `doing` names the operation and its subject.
    pub(crate) fn from_postgres(doing: impl AsRef<str>, source: postgres::Error) -> Error {
        Error::of_kind(kind_of_source(&source), doing.as_ref(), source)
    }

    fn of_kind(kind: Kind, doing: &str, source: postgres::Error) -> Error {
        let error = Error::new(kind, format!("could not {doing}"));
        let error = match kind == Kind::MigrationRequired {
            true => error.with_advice(
                "the schema `redrive` is missing or older than this program; run `redrive migrate`",
            ),
            false => error,
        };
        error.caused_by(DriverError::from(source))
    }

    fn new(kind: Kind, message: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            kind,
            message: message.into(),
            source: None,
        }))
    }
}

/// Classifies an error of the driver.
fn kind_of_source(source: &postgres::Error) -> Kind {
    match source.as_db_error() {
        _ if source.is_closed() || has_broken(source) => Kind::Lost,
        Some(server) => kind_of(server.code()),
        None => kind_of_driver(&source.to_string()),
    }
}

/// Whether the connection broke. To the driver, this is an error of TLS while the encryption begins.
fn has_broken(source: &postgres::Error) -> bool {
    let cause = source.source();
    let cause = cause.and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(is_of_network)
}

/// Whether the network or a deadline failed, not what the server sent.
fn is_of_network(error: &io::Error) -> bool {
    let is_end = matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::UnexpectedEof);
    is_end || error.raw_os_error().is_some()
}

/// Classifies an error of the driver itself, which has a text but no code.
fn kind_of_driver(said: &str) -> Kind {
    const REFUSED: [&str; 3] = ["TLS", "authentication", "configuration"];
    if said.starts_with("error serializing") || said.starts_with("error deserializing") {
        // A parameter could not be converted to its SQL type.
        Kind::Invalid
    } else if REFUSED.iter().any(|word| said.contains(word)) {
        Kind::Database
    } else {
        // I/O, a timeout, or a broken protocol.
        Kind::Lost
    }
}

/// Classifies a SQLSTATE.
fn kind_of(state: &SqlState) -> Kind {
    match state.code() {
        // An undefined schema, table, column, function or object.
        "3F000" | "42P01" | "42703" | "42883" | "42704" => Kind::MigrationRequired,
        // Waiting or another server helps: a lock, an object in use, a read-only standby, a transaction
        // that was idle or took too long. Other members of their classes are refusals, such as that of
        // a protection.
        "55P03" | "55006" | "25006" | "25P03" | "25P04" => Kind::Unavailable,
        // redrive never sends an invalid NULL, so class 23 is a CHECK that the input violated.
        code => match code.get(..2).unwrap_or_default() {
            "22" | "23" | "54" => Kind::Invalid,
            // The end of the connection may hide a commit.
            "08" => Kind::Lost,
            "57" if code.starts_with("57P") => Kind::Lost,
            // A rollback that can be retried, insufficient resources, a cancelled statement, system error.
            "40" | "53" | "57" | "58" => Kind::Unavailable,
            _ => Kind::Database,
        },
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        let mut cause = self.source().filter(|_| f.alternate());
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.0.source.as_deref()?)
    }
}

#[cfg(test)]
impl Error {
    /// Fails the test unless this is an error of the caller that says so.
    #[track_caller]
    pub(crate) fn assert_invalid(&self, why: &str) {
        assert!(self.is_invalid(), "{self:?}");
        assert!(self.to_string().contains(why), "`{why}` is not in: {self}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sqlstate_has_its_kind() {
        for (state, kind) in [
            (SqlState::UNDEFINED_TABLE, Kind::MigrationRequired),
            (SqlState::CHECK_VIOLATION, Kind::Invalid),
            (SqlState::UNTRANSLATABLE_CHARACTER, Kind::Invalid),
            (SqlState::ADMIN_SHUTDOWN, Kind::Lost),
            (SqlState::CONNECTION_FAILURE, Kind::Lost),
            (SqlState::QUERY_CANCELED, Kind::Unavailable),
            (SqlState::TOO_MANY_CONNECTIONS, Kind::Unavailable),
            (SqlState::T_R_DEADLOCK_DETECTED, Kind::Unavailable),
            (SqlState::LOCK_NOT_AVAILABLE, Kind::Unavailable),
            (SqlState::OBJECT_IN_USE, Kind::Unavailable),
            (SqlState::READ_ONLY_SQL_TRANSACTION, Kind::Unavailable),
            (
                SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                Kind::Unavailable,
            ),
            // Refusals, such as that of a protection. Repeating the call cannot help.
            (SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, Kind::Database),
            (SqlState::CANT_CHANGE_RUNTIME_PARAM, Kind::Database),
            (SqlState::IN_FAILED_SQL_TRANSACTION, Kind::Database),
            (SqlState::ACTIVE_SQL_TRANSACTION, Kind::Database),
            // From something that is no PostgreSQL server.
            (SqlState::from_code(""), Kind::Database),
            (SqlState::INSUFFICIENT_PRIVILEGE, Kind::Database),
        ] {
            assert_eq!(kind_of(&state), kind, "{state:?}");
        }
    }

    #[test]
    fn a_permanent_driver_error_is_not_unavailable() {
        for (said, kind) in [
            ("error connecting to server", Kind::Lost),
            ("timeout waiting for server", Kind::Lost),
            ("error performing TLS handshake: no", Kind::Database),
            ("authentication error", Kind::Database),
            ("error serializing parameter 1", Kind::Invalid),
        ] {
            assert_eq!(kind_of_driver(said), kind, "{said}");
        }
    }

    #[test]
    fn what_the_operating_system_says_of_a_connection_is_no_answer() {
        for (error, expected) in [
            // Such as that a router does not reach the host any more.
            (io::Error::from_raw_os_error(113), true),
            (ErrorKind::TimedOut.into(), true),
            (ErrorKind::UnexpectedEof.into(), true),
            (io::Error::other("server does not support TLS"), false),
            (ErrorKind::InvalidData.into(), false),
        ] {
            assert_eq!(is_of_network(&error), expected, "{error:?}");
        }
    }
}
