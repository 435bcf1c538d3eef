//! The one error type of the library: opaque, asked by predicates.
//!
//! `Display` says its own layer only (the operation and its subject); the cause is in
//! [`source`](std::error::Error::source). A lost lease, an empty queue and a filter that
//! matches nothing are values, not errors. No error repeats what is in a row, or in a URL.

use std::error::Error as StdError;
use std::fmt;

use postgres::error::{DbError, Severity, SqlState};

use crate::refusal::Refusal;

/// The result of the library's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong in a call to the library.
///
/// The kinds are private, so that new ones do not break anybody; ask with the predicates.
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Invalid,
    Unavailable,
    MigrationRequired,
    SchemaNewer,
    /// A pooler in transaction mode that we were not told of.
    Pooled,
    Database,
}

impl Error {
    /// Whether the caller's input was refused: a name, a payload, a delay, a configuration.
    ///
    /// Nothing was stored, and the same call fails again.
    pub fn is_invalid(&self) -> bool {
        self.0.kind == Kind::Invalid
    }

    /// Whether the database could not be reached or did not answer in time.
    ///
    /// The same call may succeed later. When the answer to a write was lost it may have taken
    /// effect: redrive's own writes are safe to repeat except `enqueue`, which would make a
    /// second job.
    pub fn is_unavailable(&self) -> bool {
        self.0.kind == Kind::Unavailable
    }

    /// Whether the schema is missing or older than this library: run the migrations.
    pub fn is_migration_required(&self) -> bool {
        self.0.kind == Kind::MigrationRequired
    }

    /// Whether the schema was changed by a newer, breaking version: upgrade this program.
    pub fn is_schema_newer(&self) -> bool {
        self.0.kind == Kind::SchemaNewer
    }

    /// The SQLSTATE that the server answered, when it was the server that refused.
    pub fn sql_state(&self) -> Option<&SqlState> {
        let mut cause = self.source();
        while let Some(error) = cause {
            if let Some(refusal) = error.downcast_ref::<Refusal>() {
                return refusal.state();
            }
            cause = error.source();
        }
        None
    }

    /// Whether a pooler in transaction mode is in the way: no patience mends that.
    pub(crate) fn is_of_a_pooler(&self) -> bool {
        self.0.kind == Kind::Pooled
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::new(Kind::Invalid, message.into(), None)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Error {
        Error::new(Kind::Unavailable, message.into(), None)
    }

    pub(crate) fn migration_required(message: impl Into<String>) -> Error {
        Error::new(Kind::MigrationRequired, message.into(), None)
    }

    pub(crate) fn schema_newer(message: impl Into<String>) -> Error {
        Error::new(Kind::SchemaNewer, message.into(), None)
    }

    pub(crate) fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        self.0.source = Some(source.into());
        self
    }

    /// Turns a driver error into ours; `doing` names the operation and its subject.
    pub(crate) fn from_postgres(doing: impl Into<String>, source: postgres::Error) -> Error {
        let message = format!("could not {}", doing.into());
        let kind = match source.as_db_error() {
            _ if source.is_closed() => Kind::Unavailable,
            Some(server) if is_anothers_statement(server) => Kind::Pooled,
            Some(server) => kind_of(server.code()),
            // It is the driver's own.
            None => kind_of_driver(&source.to_string()),
        };
        let message = match kind {
            Kind::MigrationRequired => format!(
                "{message}: the schema `redrive` is missing or older than this program; run `redrive migrate`"
            ),
            Kind::Pooled => format!(
                "{message}: a pooler in transaction mode is between this program and the database, and \
                 was not told of: set `Pooler::Transaction`, on the command line \
                 `--pooler transaction` or REDRIVE_POOLER=transaction"
            ),
            Kind::Invalid | Kind::Unavailable | Kind::SchemaNewer | Kind::Database => message,
        };
        Error::new(kind, message, Some(Box::new(Refusal::from(source))))
    }

    fn new(kind: Kind, message: String, source: Option<Box<dyn StdError + Send + Sync>>) -> Error {
        Error(Box::new(Inner {
            kind,
            message,
            source,
        }))
    }
}

/// What an error of the driver itself means; it has no codes, only words.
fn kind_of_driver(said: &str) -> Kind {
    const REFUSED: [&str; 3] = ["TLS", "authentication", "configuration"];
    if said.starts_with("error serializing") || said.starts_with("error deserializing") {
        // A parameter that could not be turned into its SQL type.
        Kind::Invalid
    } else if REFUSED.iter().any(|word| said.contains(word)) {
        Kind::Database
    } else {
        // Input and output, a timeout, a broken protocol.
        Kind::Unavailable
    }
}

/// Whether what is prepared under a name of ours takes other parameters: a pooler, which has no such
/// severity, gave us a connection where somebody else has prepared it.
fn is_anothers_statement(server: &DbError) -> bool {
    *server.code() == SqlState::PROTOCOL_VIOLATION
        && server.parsed_severity() == Some(Severity::Error)
}

/// What a SQLSTATE means for the caller.
fn kind_of(state: &SqlState) -> Kind {
    if [
        SqlState::INVALID_SCHEMA_NAME,
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_COLUMN,
        SqlState::UNDEFINED_FUNCTION,
        SqlState::UNDEFINED_OBJECT,
    ]
    .contains(state)
    {
        return Kind::MigrationRequired;
    }
    // Statements are prepared under names of the driver's, each once a connection: one that is there
    // already is another program's, and one that is gone is on another connection of the server.
    if [
        SqlState::DUPLICATE_PSTATEMENT,
        SqlState::INVALID_SQL_STATEMENT_NAME,
    ]
    .contains(state)
    {
        return Kind::Pooled;
    }
    // A null of ours never reaches the server, so class 23 is a CHECK that the input broke.
    match &state.code()[..2] {
        "22" | "23" | "54" => Kind::Invalid,
        // Connection, insufficient resources, operator intervention, system error.
        "08" | "53" | "57" | "58" => Kind::Unavailable,
        // A rollback that a repetition may avoid, a lock not to be had, a read-only standby.
        "40" | "55" | "25" => Kind::Unavailable,
        _ => Kind::Database,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.0.message)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0
            .source
            .as_deref()
            .map(|source| source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_the_kind_that_tells_what_to_do() {
        for (state, kind) in [
            (SqlState::UNDEFINED_TABLE, Kind::MigrationRequired),
            (SqlState::CHECK_VIOLATION, Kind::Invalid),
            (SqlState::UNTRANSLATABLE_CHARACTER, Kind::Invalid),
            (SqlState::ADMIN_SHUTDOWN, Kind::Unavailable),
            (SqlState::TOO_MANY_CONNECTIONS, Kind::Unavailable),
            (SqlState::T_R_DEADLOCK_DETECTED, Kind::Unavailable),
            (SqlState::INSUFFICIENT_PRIVILEGE, Kind::Database),
            (SqlState::DUPLICATE_PSTATEMENT, Kind::Pooled),
            (SqlState::INVALID_SQL_STATEMENT_NAME, Kind::Pooled),
        ] {
            assert_eq!(kind_of(&state), kind, "{state:?}");
        }
    }

    #[test]
    fn waiting_does_not_mend_what_the_driver_refuses() {
        for (said, kind) in [
            ("error connecting to server", Kind::Unavailable),
            ("timeout waiting for server", Kind::Unavailable),
            ("error performing TLS handshake: no", Kind::Database),
            ("authentication error", Kind::Database),
            ("error serializing parameter 1", Kind::Invalid),
        ] {
            assert_eq!(kind_of_driver(said), kind, "{said}");
        }
    }

    #[test]
    fn the_message_and_the_cause_are_said_once_each() {
        let error = Error::unavailable("could not claim jobs of queue `q`").caused_by("gone");
        assert_eq!(error.to_string(), "could not claim jobs of queue `q`");
        assert_eq!(
            error.source().map(ToString::to_string).as_deref(),
            Some("gone")
        );
    }
}
