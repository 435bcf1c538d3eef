//! A session: one connection of the pool, whatever its TLS, with its prepared statements.
//!
//! Behind a pooler in transaction mode it has none, and nothing else that outlives a transaction:
//! each statement is sent with the types of its parameters, and a worker's settings with each
//! transaction.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

use postgres::error::SqlState;
use postgres::{Client, Row, Statement};
use r2d2::{ManageConnection, PooledConnection};

use crate::error::{Error, Result};
use crate::pooler::Pooler;
pub(crate) use crate::sql::Parameter;
use crate::sql::Sql;

/// A connection with the type of its manager (and so of its TLS) erased.
pub(crate) trait Connection: Send {
    fn client(&mut self) -> &mut Client;
    fn statements(&mut self) -> &mut Statements;
}

/// The statements that a connection has prepared, kept on the connection itself.
#[derive(Default)]
pub(crate) struct Statements(HashMap<&'static str, Statement>);

impl<M> Connection for PooledConnection<M>
where
    M: ManageConnection<Connection = Client>,
{
    fn client(&mut self) -> &mut Client {
        self
    }

    fn statements(&mut self) -> &mut Statements {
        let extensions = PooledConnection::extensions_mut(self);
        if extensions.get::<Statements>().is_none() {
            extensions.insert(Statements::default());
        }
        #[expect(clippy::expect_used, reason = "invariant: it was inserted just above")]
        extensions
            .get_mut::<Statements>()
            .expect("the statements of the connection")
    }
}

/// Settings of a worker's own connections.
///
/// The first four pin the plans: the hot statements run on tables that are empty at one moment
/// and full at the next. A sequential scan, planned in the wrong moment, drains 13 times slower,
/// and a bitmap of a queue that nobody analyzed is one of all its rows; with those off, their penalty in the cost estimate would make the server compile every
/// statement (measured: 40 times slower); and planning each claim anew, as it would for that
/// penalty, costs as much as the claim.
const SETTINGS: [(&str, &str); 8] = [
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("jit", "off"),
    ("plan_cache_mode", "force_generic_plan"),
    ("default_transaction_isolation", "'read committed'"),
    ("statement_timeout", "'10s'"),
    ("lock_timeout", "'2s'"),
    ("idle_in_transaction_session_timeout", "'30s'"),
];

/// For how long the server waits in the middle of a transaction that is wrapped around a statement.
/// Whoever stands still there holds locks: a truncation is one of those statements.
const MIDWAY: Duration = Duration::from_secs(2);

/// The begin of a transaction with the [settings](SETTINGS) of a worker, one round trip.
static BEGIN_AS_WORKER: LazyLock<String> = LazyLock::new(|| {
    // The setting of the isolation is for transactions that begin later.
    let set = SETTINGS.map(|(name, value)| format!("SET LOCAL {name} = {value}"));
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; {}; \
         SET LOCAL idle_in_transaction_session_timeout = {}",
        set.join("; "),
        MIDWAY.as_millis()
    )
});

/// Whose settings the statements of a session run with.
#[derive(Clone, Copy, Debug)]
enum Settings {
    /// Those that the connection came with.
    Users,
    /// The [settings](SETTINGS) of a worker's own.
    Workers,
}

/// What a statement is sent in.
#[derive(Clone, Copy, Debug)]
enum Scope {
    /// A transaction of its own.
    Statement,
    /// One that has [begun](Session::begin) and has not ended.
    Transaction,
}

/// One connection, held by the thread that uses it.
pub(crate) struct Session {
    connection: Box<dyn Connection>,
    pooler: Pooler,
    settings: Settings,
    scope: Scope,
}

impl Session {
    pub(crate) fn new(connection: Box<dyn Connection>) -> Session {
        Session {
            connection,
            pooler: Pooler::default(),
            settings: Settings::Users,
            scope: Scope::Statement,
        }
    }

    /// The same connection, with this between us and the server.
    pub(crate) fn behind(self, pooler: Pooler) -> Session {
        Session { pooler, ..self }
    }

    /// The driver's client, for transactions, COPY and LISTEN.
    pub(crate) fn client(&mut self) -> &mut Client {
        self.connection.client()
    }

    pub(crate) fn is_closed(&mut self) -> bool {
        self.client().is_closed()
    }

    /// Gives the connection the [settings](SETTINGS) of a worker's own.
    pub(crate) fn pin(&mut self) -> Result<()> {
        self.settings = Settings::Workers;
        match self.pooler {
            Pooler::Session => {
                let set = SETTINGS.map(|(name, value)| format!("SET {name} = {value}"));
                self.execute("set up a connection", &set.join("; "))
            }
            // The next transaction may be another connection of the server: each sets them.
            Pooler::Transaction => Ok(()),
        }
    }

    /// Undoes [`pin`](Session::pin), and nothing of the user's, before the connection goes back
    /// to the user's pool.
    pub(crate) fn unpin(&mut self) -> Result<()> {
        self.settings = Settings::Users;
        match self.pooler {
            Pooler::Session => {
                let reset = SETTINGS.map(|(name, _)| format!("RESET {name}"));
                let reset = format!("{}; UNLISTEN *", reset.join("; "));
                self.execute("reset a connection", &reset)
            }
            Pooler::Transaction => Ok(()),
        }
    }

    /// Begins a transaction that lasts over several statements and calls; `also`: what to set for
    /// as long as it lasts.
    pub(crate) fn begin(&mut self, doing: &str, also: &str) -> Result<()> {
        let begin = match (self.pooler, self.settings) {
            (Pooler::Transaction, Settings::Workers) => BEGIN_AS_WORKER.as_str(),
            (Pooler::Transaction, Settings::Users) | (Pooler::Session, _) => "BEGIN",
        };
        self.scope = Scope::Transaction;
        match self.execute(doing, &format!("{begin}; {also}")) {
            Ok(()) => Ok(()),
            // It may have begun, and is of no use any more.
            Err(error) => self.end(doing, Err(error)),
        }
    }

    /// Ends the transaction: commits what went well, and takes the rest back.
    pub(crate) fn end<T>(&mut self, doing: &str, done: Result<T>) -> Result<T> {
        self.scope = Scope::Statement;
        let ended = match done {
            Ok(_) => self.execute(doing, "COMMIT"),
            Err(_) => self.execute(doing, "ROLLBACK"),
        };
        // What went wrong first is what is told.
        done.and_then(|done| ended.map(|()| done))
    }

    fn execute(&mut self, doing: &str, sql: &str) -> Result<()> {
        self.client()
            .batch_execute(sql)
            .map_err(|error| Error::from_postgres(doing, error))
    }

    /// Runs a statement. `doing` names operation and subject.
    pub(crate) fn query(
        &mut self,
        doing: &str,
        sql: &'static Sql,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>> {
        match (self.pooler, self.settings, self.scope) {
            (Pooler::Session, ..) => self.query_prepared(doing, sql, parameters),
            (Pooler::Transaction, Settings::Workers, Scope::Statement) => {
                self.begin(doing, "")?;
                let rows = self.query_unnamed(doing, sql, parameters);
                self.end(doing, rows)
            }
            (Pooler::Transaction, ..) => self.query_unnamed(doing, sql, parameters),
        }
    }

    /// Prepared once a connection.
    fn query_prepared(
        &mut self,
        doing: &str,
        sql: &'static Sql,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>> {
        let statement = self.prepared(doing, sql)?;
        match self.client().query(&statement, parameters) {
            Err(error) if is_stale(&error) => {
                // The schema changed under the plan, or somebody deallocated it.
                self.connection.statements().0.remove(sql.name);
                let statement = self.prepared(doing, sql)?;
                self.client().query(&statement, parameters)
            }
            answer => answer,
        }
        .map_err(|error| Error::from_postgres(doing, error))
    }

    /// In one round trip, and without a name on the connection.
    fn query_unnamed(
        &mut self,
        doing: &str,
        sql: &'static Sql,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>> {
        self.client()
            .query_typed(sql.text, &sql.typed(parameters))
            .map_err(|error| Error::from_postgres(doing, error))
    }

    /// Runs a statement that always answers exactly one row.
    pub(crate) fn query_one(
        &mut self,
        doing: &str,
        sql: &'static Sql,
        parameters: &[Parameter<'_>],
    ) -> Result<Row> {
        let mut rows = self.query(doing, sql, parameters)?;
        rows.pop()
            .ok_or_else(|| Error::unavailable(format!("could not {doing}: the answer had no row")))
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

fn is_stale(error: &postgres::Error) -> bool {
    matches!(
        error.code(),
        Some(state) if *state == SqlState::FEATURE_NOT_SUPPORTED
            || *state == SqlState::INVALID_SQL_STATEMENT_NAME
    )
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}
