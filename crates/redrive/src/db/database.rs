//! The database handle: a pool whose calls have deadlines.

mod builder;
mod each_batch;

pub use builder::DatabaseBuilder;
pub use each_batch::BatchProgress;

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use postgres::Client;
use r2d2::{ManageConnection, Pool};

use crate::db::caller::{DbCaller, Deadlines, SessionSource, SessionUse};
use crate::db::connection::ForeignConnection;
use crate::db::pool_share::PoolShares;
use crate::db::pooler::Pooler;
use crate::db::session::Session;
use crate::error::{Error, Result};
use crate::job::wait::MAX_WAIT;
use crate::sync::lock;

use each_batch::Watch;

/// Connects to a PostgreSQL server with a new pool and default settings.
///
/// Remote connections use TLS and verify the server's certificate, unless the URL says otherwise
/// (see [`ConnectOptions`](crate::ConnectOptions)). Use [`Database::builder`] for other settings and
/// [`Database::from_pool`] for an existing pool.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// db.migrate()?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// *Invalid* if the URL cannot be parsed. *Unavailable* if the server cannot be reached within 10
/// seconds.
pub fn connect(url: &str) -> Result<Database> {
    Database::builder(url).open()
}

/// A PostgreSQL database with the schema of redrive.
///
/// A clone shares the pool. Every call returns within its deadline, even if the server does not
/// answer.
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
    watch: Option<Watch>,
}

struct Shared {
    source: SessionSource,
    pooler: Pooler,
    connections: u32,
    workers: PoolShares,
    call_timeout: Duration,
    bulk_timeout: Duration,
    /// Idle callers. They hold no connection.
    idle: Mutex<Vec<DbCaller>>,
}

const DEFAULT_CONNECTIONS: u32 = 10;
const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(15);
const DEFAULT_BULK_TIMEOUT: Duration = Duration::from_mins(1);

/// The limit of a long call when the pool has no second connection to check the server.
const MAX_UNCHECKED_CALL: Duration = Duration::from_hours(1);

impl Database {
    /// Returns a builder for a database with a new pool.
    pub fn builder(url: &str) -> DatabaseBuilder {
        DatabaseBuilder::new(url)
    }

    /// Uses an existing pool, with the TLS of its manager.
    ///
    /// A worker holds up to five connections, so give the pool five more than your own threads
    /// need. Every call waits up to the pool's timeout for a connection. Connections must come back to the pool outside of
    /// a transaction: what a later call writes in one that is left open is lost with it.
    ///
    /// [`Pooler::Transaction`] is always correct. Declare [`Pooler::Session`] if each connection belongs to the pool
    /// alone: then workers are notified and statements prepared, and workers and deliveries close the connections that
    /// they have used.
    ///
    /// ```
    /// use redrive::postgres::NoTls;
    /// use redrive::r2d2_postgres::PostgresConnectionManager;
    /// use redrive::{Database, Pooler};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let config = std::env::var("DATABASE_URL")?.parse()?;
    /// let pool = redrive::r2d2::Pool::new(PostgresConnectionManager::new(config, NoTls))?;
    /// let db = Database::from_pool(pool, Pooler::Session);
    /// db.migrate()?;
    /// # Ok(()) }
    /// ```
    pub fn from_pool<M>(pool: Pool<M>, pooler: Pooler) -> Database
    where
        M: ManageConnection<Connection = Client>,
        M::Error: 'static,
    {
        let connections = pool.max_size();
        let source = SessionSource::new(Deadlines::ByThread, move |_| {
            let connection = pool.get().map_err(|error| {
                Error::unavailable("could not get a connection to the database").caused_by(error)
            })?;
            Ok(Session::new(
                Box::new(ForeignConnection(connection)),
                pooler,
            ))
        });
        let (call, bulk) = (DEFAULT_CALL_TIMEOUT, DEFAULT_BULK_TIMEOUT);
        Database::over(source, pooler, connections, call, bulk)
    }

    fn over(
        source: SessionSource,
        pooler: Pooler,
        connections: u32,
        call_timeout: Duration,
        bulk_timeout: Duration,
    ) -> Database {
        Database {
            shared: Arc::new(Shared {
                source,
                pooler,
                connections,
                workers: PoolShares::default(),
                // Sums and multiples of them cannot overflow.
                call_timeout: call_timeout.min(MAX_WAIT),
                bulk_timeout: bulk_timeout.min(MAX_WAIT),
                idle: Mutex::default(),
            }),
            watch: None,
        }
    }

    /// The maximum number of connections.
    pub(crate) fn connections(&self) -> u32 {
        self.shared.connections
    }

    /// The workers that hold connections of the pool.
    pub(crate) fn workers(&self) -> &PoolShares {
        &self.shared.workers
    }

    /// The configured pooler.
    pub(crate) fn pooler_mode(&self) -> Pooler {
        self.shared.pooler
    }

    pub(crate) fn call_timeout(&self) -> Duration {
        self.shared.call_timeout
    }

    /// The deadline of a call for many rows or bytes.
    pub(crate) fn bulk_timeout(&self) -> Duration {
        self.shared.bulk_timeout
    }

    /// Makes a call with the usual deadline.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        doing: &str,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.call_within(doing, self.shared.call_timeout, work)
    }

    /// Makes a call with this deadline.
    pub(crate) fn call_within<T: Send + 'static>(
        &self,
        doing: &str,
        deadline: Duration,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.with_caller(|caller| caller.call(doing, deadline, work))
    }

    /// Makes a call without a fixed deadline. It may take as long as the server answers a probe on
    /// another connection, once per usual deadline.
    pub(crate) fn call_while_alive<T: Send + 'static>(
        &self,
        doing: &str,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        const PROBE: &str = "check that the database answers";
        let (deadline, begun) = (self.shared.call_timeout, Instant::now());
        let lives = || match self.connections() < 2 {
            true => begun.elapsed() < MAX_UNCHECKED_CALL,
            // The driver's liveness check.
            false => self
                .call(PROBE, move |session| Ok(session.answers(deadline)))
                .unwrap_or(false),
        };
        self.with_caller(|caller| caller.call_while(doing, deadline, lives, work))
    }

    fn with_caller<T>(&self, call: impl FnOnce(&mut DbCaller) -> Result<T>) -> Result<T> {
        let idle = lock(&self.shared.idle).pop();
        let mut caller = idle.unwrap_or_else(|| {
            let source = self.shared.source.clone();
            DbCaller::new("redrive-call", source, SessionUse::PerCall)
        });
        let result = call(&mut caller);
        // More cannot work at the same time. A caller may keep a thread.
        let mut idle = lock(&self.shared.idle);
        if idle.len() < self.connections() as usize {
            idle.push(caller);
        }
        result
    }

    /// Opens a session for the calling thread, for a handler's transaction. Waits as long as the pool does.
    pub(crate) fn session(&self) -> Result<Session> {
        self.shared.source.session(Duration::MAX)
    }

    /// Returns a caller that keeps a connection of the pool.
    pub(crate) fn caller(&self, name: &str) -> DbCaller {
        DbCaller::new(name, self.shared.source.clone(), SessionUse::Held)
    }

    /// Returns a caller for a transaction of several calls, which ends without its changes when this is dropped.
    pub(crate) fn transaction_caller(&self) -> DbCaller {
        let source = self.shared.source.clone();
        DbCaller::new("redrive-transaction", source, SessionUse::Kept)
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("pooler", &self.shared.pooler)
            .field("connections", &self.shared.connections)
            .field("call_timeout", &self.shared.call_timeout)
            .finish_non_exhaustive()
    }
}
