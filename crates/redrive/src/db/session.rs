//! A session: one connection of the pool with its prepared statements.
//!
//! Behind a transaction-mode pooler it prepares nothing and keeps nothing between transactions:
//! each statement carries the types of its parameters, and each transaction a worker's settings.

use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use postgres::error::SqlState;
use postgres::{Client, Row, Statement};

use crate::db::connection::Connection;
use crate::db::pooler::Pooler;
use crate::db::row::{FromRow, only};
pub(crate) use crate::db::sql::Parameter;
use crate::db::sql::Sql;
use crate::error::{Error, Result};

/// The settings of a worker's connections.
///
/// Five of them pin the plans, because the hot statements run on tables that are empty now and
/// full a moment later; see "Pinned plans" in ARCHITECTURE.md.
///
/// The `search_path` keeps functions and operators that another role creates, for example in
/// `public`, out of a worker's statements. Without `row_security`, a statement that would miss rows
/// fails. The settings after it may be changed for a role or a database, and change how text is read
/// or written.
const SETTINGS: [(&str, &str); 20] = [
    ("search_path", "pg_catalog, pg_temp"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("jit", "off"),
    ("max_parallel_workers_per_gather", "0"),
    ("plan_cache_mode", "force_generic_plan"),
    ("default_transaction_isolation", "'read committed'"),
    ("statement_timeout", "'10s'"),
    ("lock_timeout", "'2s'"),
    ("idle_in_transaction_session_timeout", "'30s'"),
    ("idle_session_timeout", "0"),
    ("row_security", "off"),
    ("standard_conforming_strings", "on"),
    ("transform_null_equals", "off"),
    ("array_nulls", "on"),
    ("bytea_output", "hex"),
    ("DateStyle", "'ISO, MDY'"),
    ("IntervalStyle", "postgres"),
    ("TimeZone", "'UTC'"),
    ("extra_float_digits", "1"),
];

/// The server closes the connection of a host that vanished without closing it, so that no lock of
/// an open transaction outlives the default lease by much. They have no effect on Unix sockets. Behind
/// a transaction-mode pooler they would concern the pooler's own connection, so they are not set.
const KEEPALIVES: [(&str, &str); 4] = [
    ("tcp_keepalives_idle", "'30s'"),
    ("tcp_keepalives_interval", "'10s'"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "'60s'"),
];

/// How long the server waits inside a transaction around one statement. Such a transaction may hold
/// strong locks, for example for a TRUNCATE.
const MIDWAY: Duration = Duration::from_secs(2);

/// Begins a transaction with the [settings](SETTINGS) of a worker, in one round trip.
static BEGIN_AS_WORKER: LazyLock<String> = LazyLock::new(|| {
    // `default_transaction_isolation` affects only later transactions.
    let set = SETTINGS.map(|(name, value)| format!("SET LOCAL {name} = {value}"));
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; {}; \
         SET LOCAL idle_in_transaction_session_timeout = {}",
        set.join("; "),
        MIDWAY.as_millis()
    )
});

/// What a transaction sets that waits for its caller, who may be idle for longer than the session allows.
pub(crate) const AWAITS_CALLER: &str = "SET LOCAL idle_in_transaction_session_timeout = 0";

/// How many times a statement is sent that is the victim of a conflict.
const MAX_TRIES: usize = 4;

/// A connection, used by one thread.
pub(crate) struct Session {
    connection: Box<dyn Connection>,
    pooler: Pooler,
    /// Whether it has the [settings](SETTINGS) of a worker instead of those of the connection.
    is_workers: bool,
    /// Whether a transaction [began](Session::begin) before the statement.
    is_in_transaction: bool,
    /// Whether a worker listens for notifications on it.
    pub(crate) listens: bool,
}

impl Session {
    pub(crate) fn new(connection: Box<dyn Connection>, pooler: Pooler) -> Session {
        Session {
            connection,
            pooler,
            is_workers: false,
            is_in_transaction: false,
            listens: false,
        }
    }

    /// Returns the driver's client, for transactions, COPY and LISTEN.
    pub(crate) fn client(&mut self) -> &mut Client {
        self.connection.client()
    }

    /// Sets when the next calls must have ended. Without effect if the connection cannot have a
    /// deadline.
    pub(crate) fn set_deadline(&self, until: Option<Instant>) {
        if let Some(deadline) = self.connection.deadline() {
            deadline.set(until);
        }
    }

    pub(crate) fn is_closed(&mut self) -> bool {
        self.client().is_closed()
    }

    /// Whether the server still answers on this connection, after a call that failed.
    pub(crate) fn answers(&mut self, timeout: Duration) -> bool {
        self.set_deadline(Some(Instant::now() + timeout));
        self.client().simple_query("").is_ok()
    }

    /// Applies the [settings](SETTINGS) of a worker, in one round trip. Nothing takes them back: the connection is closed
    /// afterwards.
    pub(crate) fn pin(&mut self) -> Result<()> {
        self.is_workers = true;
        match self.pooler {
            Pooler::Session => {
                let pinned = SETTINGS.iter().chain(&KEEPALIVES);
                let set = pinned.map(|(name, value)| format!("SET {name} = {value}"));
                let set: Vec<String> = set.collect();
                self.execute("set up a connection", &set.join("; "))
            }
            // Each transaction applies them, because the next one may use another server
            // connection.
            Pooler::Transaction => Ok(()),
        }
    }

    /// Whether the next user of the connection would find an open transaction or a changed setting:
    /// a panic interrupted a call, or it was a worker's.
    fn is_left_changed(&self) -> bool {
        let is_pinned = self.is_workers && self.pooler == Pooler::Session;
        is_pinned || self.is_in_transaction || thread::panicking()
    }

    /// Begins a transaction for several statements and calls. `also` are settings for its duration.
    pub(crate) fn begin(&mut self, doing: &str, also: &str) -> Result<()> {
        let begin = match (self.pooler, self.is_workers) {
            (Pooler::Transaction, true) => BEGIN_AS_WORKER.as_str(),
            (Pooler::Transaction, false) | (Pooler::Session, _) => "BEGIN",
        };
        self.is_in_transaction = true;
        match self.execute(doing, &format!("{begin}; {also}")) {
            Ok(()) => Ok(()),
            // The transaction may have begun, so end it.
            Err(error) => self.end(doing, Err(error)),
        }
    }

    /// Fails if the connection with the transaction was lost, and this is another one.
    pub(crate) fn continues(&self, doing: &str) -> Result<()> {
        match self.is_in_transaction {
            true => Ok(()),
            false => Err(Error::unavailable(format!(
                "could not {doing}: the connection of the transaction was lost"
            ))),
        }
    }

    /// Ends the transaction: commits after a success, rolls back after an error.
    pub(crate) fn end<T>(&mut self, doing: &str, done: Result<T>) -> Result<T> {
        let how = match done {
            Ok(_) => "COMMIT",
            Err(_) => "ROLLBACK",
        };
        self.end_by(how, doing, done)
    }

    pub(crate) fn end_by<T>(&mut self, how: &str, doing: &str, done: Result<T>) -> Result<T> {
        self.is_in_transaction = false;
        let ended = self.execute(doing, how);
        // The first error is the one to report.
        done.and_then(|done| ended.map(|()| done))
    }

    fn execute(&mut self, doing: &str, sql: &str) -> Result<()> {
        self.client()
            .batch_execute(sql)
            .map_err(|error| Error::from_postgres(doing, error))
    }

    /// Runs a statement. `doing` names the operation and its subject.
    ///
    /// Repeats a statement that the server rolled back for the sake of another session, such as the victim of a
    /// deadlock, or refused at a stricter level than READ COMMITTED, if the statement is the whole transaction. At READ
    /// COMMITTED: the default level of a user's connection may be the reason. It prepares a [stale](is_stale) statement
    /// again.
    pub(crate) fn query(
        &mut self,
        doing: &str,
        sql: &'static Sql,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>> {
        let is_whole = !self.is_in_transaction;
        let mut answer = self.query_once(doing, sql, parameters);
        for _ in 1..MAX_TRIES {
            match &answer {
                Err(error) if is_whole && is_stale(error) => {
                    answer = self.query_once(doing, sql, parameters);
                }
                Err(error) if is_whole && is_of_level(error) => {
                    answer = self.read_committed(doing, "", |session| {
                        session.query_once(doing, sql, parameters)
                    });
                }
                Ok(_) | Err(_) => break,
            }
        }
        answer
    }

    fn query_once(
        &mut self,
        doing: &str,
        sql: &'static Sql,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>> {
        if self.pooler == Pooler::Transaction && self.is_workers && !self.is_in_transaction {
            self.begin(doing, "")?;
            let rows = self.query_once(doing, sql, parameters);
            return self.end(doing, rows);
        }
        let answer = match self.pooler {
            // Prepared once per connection.
            Pooler::Session => {
                let statement = self.prepared(doing, sql)?;
                self.client().query(&statement, parameters)
            }
            // Takes one round trip and leaves no name on the connection.
            Pooler::Transaction => {
                let typed = sql.typed(parameters);
                self.client().query_typed(sql.text, &typed)
            }
        };
        let answer = answer.map_err(|error| Error::from_postgres(doing, error));
        if answer.as_ref().is_err_and(is_stale) {
            // The other statements of the connection may be stale, too.
            self.connection.statements().0.clear();
        }
        answer
    }

    /// Returns the row of a statement that always returns one.
    pub(crate) fn one<T: FromRow>(
        &mut self,
        doing: &str,
        sql: &'static Sql,
        parameters: &[Parameter<'_>],
    ) -> Result<T> {
        only(doing, &self.query(doing, sql, parameters)?)
    }

    /// Runs statements in a READ COMMITTED transaction. The database refuses some at a stricter
    /// level, which may be the default of a user's connection. `also` are settings for the transaction.
    ///
    /// Repeats the transaction if a prepared statement was [stale](is_stale), which aborts it.
    pub(crate) fn read_committed<T>(
        &mut self,
        doing: &str,
        also: &str,
        mut work: impl FnMut(&mut Session) -> Result<T>,
    ) -> Result<T> {
        let settings = format!("SET LOCAL transaction_isolation = 'read committed'; {also}");
        let mut run = || {
            self.begin(doing, &settings)?;
            let done = work(self);
            self.end(doing, done)
        };
        match run() {
            Err(error) if is_stale(&error) => run(),
            answer => answer,
        }
    }

    fn prepared(&mut self, doing: &str, sql: &'static Sql) -> Result<Statement> {
        if let Some(statement) = self.connection.statements().0.get(sql.name) {
            return Ok(statement.clone());
        }
        let statement = self
            .client()
            .prepare(sql.text)
            .map_err(|error| Error::from_postgres(doing, error))?;
        self.connection
            .statements()
            .0
            .insert(sql.name, statement.clone());
        Ok(statement)
    }
}

/// Whether a statement may succeed at READ COMMITTED.
fn is_of_level(error: &Error) -> bool {
    error.is_victim() || error.sql_state() == Some(&SqlState::INVALID_TRANSACTION_STATE)
}

/// Whether a prepared statement cannot be used again: the schema changed, or something deallocated it.
fn is_stale(error: &Error) -> bool {
    matches!(
        error.sql_state(),
        Some(state) if *state == SqlState::FEATURE_NOT_SUPPORTED
            || *state == SqlState::INVALID_SQL_STATEMENT_NAME
    )
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_left_changed() {
            self.connection.discard();
        }
    }
}
