//! The database handle: a pool, seen from the library's own threads.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postgres::Client;
use r2d2::{ManageConnection, Pool};
use r2d2_postgres::PostgresConnectionManager;

use crate::address::Address;
use crate::error::{Error, Result};
use crate::lane::{Between, Lane, Source};
use crate::session::{Connection, Session, Statements};

/// Connects to a PostgreSQL server with a pool of its own: [`DatabaseBuilder`] with its defaults.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// db.migrate()?;
/// # Ok(()) }
/// ```
///
/// A server on this machine is talked to in plain, any other one with TLS unless the URL says
/// otherwise; [`Address`] tells how. A pool of yours, with whatever connector, is as good; see
/// [`Database::from_pool`].
///
/// # Errors
/// *Invalid* when the URL cannot be read; *unavailable* when the server cannot be reached within
/// ten seconds.
pub fn connect(url: &str) -> Result<Database> {
    Database::builder(url).open()
}

/// A PostgreSQL database with redrive in it.
///
/// Cloning gives another handle to the same pool. Every call runs on a thread of the library and
/// answers within its deadline, also when the server is silent.
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
}

struct Shared {
    source: Source,
    connections: u32,
    call_timeout: Duration,
    /// Lanes that nobody uses right now. They hold no connection.
    idle: Mutex<Vec<Lane>>,
}

/// How many connections a pool has, and how long it tries to connect, unless the builder says
/// otherwise.
const CONNECTIONS: u32 = 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a call may take unless the builder says otherwise.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);

/// What the driver takes for the idle time before keepalives when nothing is said.
const DRIVERS_KEEPALIVE: Duration = Duration::from_hours(2);

impl Database {
    /// Starts the configuration of a pool of the library's own.
    pub fn builder(url: &str) -> DatabaseBuilder {
        DatabaseBuilder {
            url: url.to_owned(),
            connections: CONNECTIONS,
            connect_timeout: CONNECT_TIMEOUT,
            call_timeout: CALL_TIMEOUT,
        }
    }

    /// Uses a pool of yours, with whatever TLS its manager does.
    ///
    /// A worker holds up to four of its connections; give the pool that many more than your own
    /// threads need. Every call waits up to the pool's own timeout for a connection.
    pub fn from_pool<M>(pool: Pool<M>) -> Database
    where
        M: ManageConnection<Connection = Client>,
        M::Error: 'static,
    {
        Database::over(pool, CALL_TIMEOUT)
    }

    fn over<M>(pool: Pool<M>, call_timeout: Duration) -> Database
    where
        M: ManageConnection<Connection = Client>,
    {
        let connections = pool.max_size();
        let source: Source = Arc::new(move || {
            let connection = pool.get().map_err(|error| {
                Error::unavailable("could not get a connection to the database").caused_by(error)
            })?;
            Ok(Session::new(Box::new(connection)))
        });
        Database {
            shared: Arc::new(Shared {
                source,
                connections,
                call_timeout,
                idle: Mutex::default(),
            }),
        }
    }

    /// How many connections the pool may have.
    pub(crate) fn connections(&self) -> u32 {
        self.shared.connections
    }

    pub(crate) fn call_timeout(&self) -> Duration {
        self.shared.call_timeout
    }

    /// Makes a call within the usual deadline.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        doing: &str,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.call_within(doing, self.shared.call_timeout, work)
    }

    /// Makes a call within a deadline of its own.
    pub(crate) fn call_within<T: Send + 'static>(
        &self,
        doing: &str,
        deadline: Duration,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let idle = self.idle().pop();
        let mut lane = idle.unwrap_or_else(|| {
            Lane::new(
                "redrive-call",
                Arc::clone(&self.shared.source),
                Between::GiveBack,
            )
        });
        let result = lane.call(doing, deadline, work);
        self.idle().push(lane);
        result
    }

    /// A connection for the calling thread: a slot, for a handler's own transaction.
    pub(crate) fn session(&self) -> Result<Session> {
        (self.shared.source)()
    }

    /// A lane that holds a connection of the pool for as long as it lives.
    pub(crate) fn hold(&self, name: &str) -> Lane {
        Lane::new(name, Arc::clone(&self.shared.source), Between::Hold)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Lane>> {
        // A list of idle lanes is good in any state that a panic could have left it in.
        self.shared
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("connections", &self.shared.connections)
            .field("call_timeout", &self.shared.call_timeout)
            .finish_non_exhaustive()
    }
}

/// How to connect, for [`Database::builder`].
#[derive(Clone)]
pub struct DatabaseBuilder {
    url: String,
    connections: u32,
    connect_timeout: Duration,
    call_timeout: Duration,
}

impl DatabaseBuilder {
    /// The most connections to open. Defaults to 10; a worker needs 4 for itself.
    #[must_use]
    pub fn connections(mut self, connections: u32) -> DatabaseBuilder {
        self.connections = connections;
        self
    }

    /// How long to try to connect, at first and whenever a connection is needed.
    /// Defaults to 10 seconds.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> DatabaseBuilder {
        self.connect_timeout = timeout;
        self
    }

    /// How long a call waits for its answer. Defaults to 15 seconds.
    #[must_use]
    pub fn call_timeout(mut self, timeout: Duration) -> DatabaseBuilder {
        self.call_timeout = timeout;
        self
    }

    /// Opens the pool and makes sure that the server answers.
    ///
    /// # Errors
    /// *Invalid* when the URL cannot be read or the numbers make no sense; *unavailable* when the
    /// server cannot be reached in time.
    pub fn open(self) -> Result<Database> {
        let mut address: Address = self.url.parse()?;
        if self.connections == 0 || self.connect_timeout.is_zero() || self.call_timeout.is_zero() {
            return Err(Error::invalid(
                "a pool needs a connection, and timeouts over zero",
            ));
        }
        let config = address.config_mut();
        if config.get_application_name().is_none() {
            config.application_name("redrive");
        }
        // Unless the URL says otherwise: notice a dead network within seconds, not hours.
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(self.connect_timeout);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(Duration::from_secs(15));
        }
        if config.get_keepalives_idle() == DRIVERS_KEEPALIVE {
            config
                .keepalives_idle(Duration::from_secs(30))
                .keepalives_interval(Duration::from_secs(10))
                .keepalives_retries(3);
        }
        // Once without the pool, which would hide why: a wrong password is told at once.
        let direct = address.clone();
        let source: Source = Arc::new(move || {
            let client = direct.connect()?;
            Ok(Session::new(Box::new(Direct {
                client,
                statements: Statements::default(),
            })))
        });
        let patience = self.connect_timeout + Duration::from_secs(1);
        Lane::new("redrive-connect", source, Between::GiveBack).call(
            "connect to the database",
            patience,
            |_| Ok(()),
        )?;
        let pool = Pool::builder()
            .max_size(self.connections)
            .min_idle(Some(0))
            .connection_timeout(self.connect_timeout)
            // A broken connection shows at its next use, and that use is repeated or reported;
            // asking first would double the round trips of every call.
            .test_on_check_out(false)
            .error_handler(Box::new(QuietErrors))
            .build_unchecked(PostgresConnectionManager::new(
                address.config().clone(),
                address.connector(),
            ));
        Ok(Database::over(pool, self.call_timeout))
    }
}

/// A connection outside of any pool.
struct Direct {
    client: Client,
    statements: Statements,
}

impl Connection for Direct {
    fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    fn statements(&mut self) -> &mut Statements {
        &mut self.statements
    }
}

impl fmt::Debug for DatabaseBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may hold a password.
        f.debug_struct("DatabaseBuilder")
            .field("connections", &self.connections)
            .field("connect_timeout", &self.connect_timeout)
            .field("call_timeout", &self.call_timeout)
            .finish_non_exhaustive()
    }
}

/// Connection errors of the pool go to the debug log: the call that needed the connection
/// reports them, once.
#[derive(Debug)]
struct QuietErrors;

impl r2d2::HandleError<postgres::Error> for QuietErrors {
    fn handle_error(&self, error: postgres::Error) {
        log::debug!("could not open a connection: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_url_is_a_clear_error_without_the_password() {
        let error = connect("postgres://me:s3cret@host:not-a-port/db").expect_err("a bad URL");
        assert!(error.is_invalid(), "{error:?}");
        assert!(
            !format!("{error:?} {error}").contains("s3cret"),
            "{error:?}"
        );
        let builder = Database::builder("postgres://me:s3cret@host/db");
        assert!(!format!("{builder:?}").contains("s3cret"));
    }

    #[test]
    fn a_server_that_is_down_is_unavailable() {
        // Port 1 of this machine: nobody listens there.
        let builder = Database::builder("postgres://postgres@127.0.0.1:1/db");
        let error = builder
            .connect_timeout(Duration::from_millis(300))
            .open()
            .expect_err("down");
        assert!(error.is_unavailable(), "{error:?}");
    }
}
