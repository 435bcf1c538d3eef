//! A session: one connection of the pool, whatever its TLS, with its prepared statements.

use std::collections::HashMap;
use std::fmt;

use postgres::error::SqlState;
use postgres::types::ToSql;
use postgres::{Client, Row, Statement};
use r2d2::{ManageConnection, PooledConnection};

use crate::error::{Error, Result};
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

/// One connection, held by the thread that uses it.
pub(crate) struct Session {
    connection: Box<dyn Connection>,
}

/// A parameter of a statement.
pub(crate) type Parameter<'a> = &'a (dyn ToSql + Sync);

impl Session {
    pub(crate) fn new(connection: Box<dyn Connection>) -> Session {
        Session { connection }
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
        let set = SETTINGS.map(|(name, value)| format!("SET {name} = {value}"));
        self.client()
            .batch_execute(&set.join("; "))
            .map_err(|error| Error::from_postgres("set up a connection", error))
    }

    /// Undoes [`pin`](Session::pin), and nothing of the user's, before the connection goes back
    /// to the user's pool.
    pub(crate) fn unpin(&mut self) -> Result<()> {
        let reset = SETTINGS.map(|(name, _)| format!("RESET {name}"));
        self.client()
            .batch_execute(&format!("{}; UNLISTEN *", reset.join("; ")))
            .map_err(|error| Error::from_postgres("reset a connection", error))
    }

    /// Runs a statement, prepared once a connection. `doing` names operation and subject.
    pub(crate) fn query(
        &mut self,
        doing: &str,
        sql: &'static Sql,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>> {
        let statement = self.prepared(doing, sql)?;
        match self.client().query(&statement, parameters) {
            Err(error) if is_stale(&error) => {
                // The schema changed under the plan, or a pooler gave us another backend.
                self.connection.statements().0.remove(sql.name);
                let statement = self.prepared(doing, sql)?;
                self.client().query(&statement, parameters)
            }
            answer => answer,
        }
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
