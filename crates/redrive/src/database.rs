//! The database handle: a pool, seen from the library's own threads.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use postgres::Client;
use r2d2::{ManageConnection, Pool};

use crate::address::Address;
use crate::dial::Dial;
use crate::error::{Error, Result};
use crate::lane::{Between, Lane, Source};
use crate::pool::OwnPool;
use crate::pooler::Pooler;
use crate::session::{Connection, Session, Statements};
use crate::stuck::Stuck;

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
    pooler: Pooler,
    connections: u32,
    timeouts: Timeouts,
    /// Lanes that nobody uses right now. They hold no connection.
    idle: Mutex<Vec<Lane>>,
}

/// How many connections a pool has, and how long it tries to connect, unless the builder says
/// otherwise.
const CONNECTIONS: u32 = 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a call may take, and one over many letters, unless the builder says otherwise.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);
const BULK_TIMEOUT: Duration = Duration::from_mins(1);

/// How long calls may take.
#[derive(Clone, Copy, Debug)]
struct Timeouts {
    connect: Duration,
    call: Duration,
    bulk: Duration,
}

/// How long they may take unless the builder says otherwise.
const TIMEOUTS: Timeouts = Timeouts {
    connect: CONNECT_TIMEOUT,
    call: CALL_TIMEOUT,
    bulk: BULK_TIMEOUT,
};

/// How long a call may take very long when there is no other connection to see whether the server
/// lives.
const WITHOUT_ANOTHER: Duration = Duration::from_hours(1);

/// What the driver takes for the idle time before keepalives when nothing is said.
const DRIVERS_KEEPALIVE: Duration = Duration::from_hours(2);

impl Database {
    /// Starts the configuration of a pool of the library's own.
    pub fn builder(url: &str) -> DatabaseBuilder {
        DatabaseBuilder {
            url: url.to_owned(),
            pooler: Pooler::default(),
            connections: CONNECTIONS,
            timeouts: TIMEOUTS,
        }
    }

    /// Uses a pool of yours, with whatever TLS its manager does.
    ///
    /// A worker holds up to four of its connections; give the pool that many more than your own
    /// threads need. Every call waits up to the pool's own timeout for a connection. When the pool
    /// connects to a pooler in transaction mode, say so with [`Database::pooler`].
    pub fn from_pool<M>(pool: Pool<M>) -> Database
    where
        M: ManageConnection<Connection = Client>,
        M::Error: 'static,
    {
        let (connections, patience) = (pool.max_size(), pool.connection_timeout());
        let source = Source::new(Stuck::default(), move || {
            let connection = pool.get().map_err(|error| {
                Error::unavailable("could not get a connection to the database").caused_by(error)
            })?;
            Ok(Session::new(Box::new(connection)))
        });
        let timeouts = Timeouts {
            connect: patience,
            ..TIMEOUTS
        };
        Database::over(source, Pooler::default(), connections, timeouts)
    }

    /// The same pool, behind this [pooler](Pooler). For a pool of yours; a pool of the library's own
    /// is told by [`DatabaseBuilder::pooler`].
    ///
    /// ```
    /// use redrive::postgres::NoTls;
    /// use redrive::r2d2_postgres::PostgresConnectionManager;
    /// use redrive::{Database, Pooler};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let config = std::env::var("DATABASE_URL")?.parse()?;
    /// let pool = redrive::r2d2::Pool::new(PostgresConnectionManager::new(config, NoTls))?;
    /// let db = Database::from_pool(pool).pooler(Pooler::Transaction);
    /// db.migrate()?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn pooler(self, pooler: Pooler) -> Database {
        let Shared {
            source,
            connections,
            timeouts,
            ..
        } = &*self.shared;
        let source = source.giving(move |session| session.behind(pooler));
        Database::over(source, pooler, *connections, *timeouts)
    }

    fn over(source: Source, pooler: Pooler, connections: u32, timeouts: Timeouts) -> Database {
        Database {
            shared: Arc::new(Shared {
                source,
                pooler,
                connections,
                timeouts,
                idle: Mutex::default(),
            }),
        }
    }

    /// How many connections the pool may have.
    pub(crate) fn connections(&self) -> u32 {
        self.shared.connections
    }

    /// What is between us and the server.
    pub(crate) fn stands_behind(&self) -> Pooler {
        self.shared.pooler
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        self.shared.timeouts.connect
    }

    pub(crate) fn call_timeout(&self) -> Duration {
        self.shared.timeouts.call
    }

    /// Makes a call within the usual deadline.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        doing: &str,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.call_within(doing, self.shared.timeouts.call, work)
    }

    /// Makes a call that may take longer, because it is about many letters.
    pub(crate) fn call_bulk<T: Send + 'static>(
        &self,
        doing: &str,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.call_within(doing, self.shared.timeouts.bulk, work)
    }

    /// Makes a call within a deadline of its own.
    pub(crate) fn call_within<T: Send + 'static>(
        &self,
        doing: &str,
        deadline: Duration,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.on_a_lane(|lane| lane.call(doing, deadline, work))
    }

    /// Makes a call that may take very long, for as long as the server shows life: it is asked on
    /// another connection each time that the usual deadline has passed.
    pub(crate) fn call_while_it_lives<T: Send + 'static>(
        &self,
        doing: &str,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let deadline = self.shared.timeouts.call;
        let begun = Instant::now();
        let lives = || {
            if self.connections() < 2 {
                return begun.elapsed() < WITHOUT_ANOTHER;
            }
            // The driver's own way to see whether somebody answers.
            let asked = self.call("ask whether the database is there", |session| {
                session
                    .client()
                    .simple_query("")
                    .map_err(|error| Error::from_postgres("ask whether it is there", error))
            });
            asked.is_ok()
        };
        self.on_a_lane(|lane| lane.call_while(doing, deadline, lives, work))
    }

    fn on_a_lane<T>(&self, call: impl FnOnce(&mut Lane) -> Result<T>) -> Result<T> {
        let idle = self.idle().pop();
        let mut lane = idle.unwrap_or_else(|| {
            let source = self.shared.source.clone();
            Lane::new("redrive-call", source, Between::GiveBack)
        });
        let result = call(&mut lane);
        self.idle().push(lane);
        result
    }

    /// A connection for the calling thread: a slot, for a handler's own transaction.
    pub(crate) fn session(&self) -> Result<Session> {
        self.shared.source.session()
    }

    /// A lane that holds a connection of the pool for as long as it lives.
    pub(crate) fn hold(&self, name: &str) -> Lane {
        Lane::new(name, self.shared.source.clone(), Between::Hold)
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
            .field("pooler", &self.shared.pooler)
            .field("connections", &self.shared.connections)
            .field("call_timeout", &self.shared.timeouts.call)
            .finish_non_exhaustive()
    }
}

/// How to connect, for [`Database::builder`].
#[derive(Clone)]
pub struct DatabaseBuilder {
    url: String,
    pooler: Pooler,
    connections: u32,
    timeouts: Timeouts,
}

impl DatabaseBuilder {
    /// The most connections to open. Defaults to 10; a worker needs 4 for itself.
    #[must_use]
    pub fn connections(mut self, connections: u32) -> DatabaseBuilder {
        self.connections = connections;
        self
    }

    /// What is between us and the server. Defaults to [`Pooler::Session`]: nothing, or a pooler that
    /// keeps a connection for us.
    #[must_use]
    pub fn pooler(mut self, pooler: Pooler) -> DatabaseBuilder {
        self.pooler = pooler;
        self
    }

    /// How long to try to connect, until the server has let us in, at first and whenever a
    /// connection is needed. Defaults to 10 seconds; a `connect_timeout` in the URL goes before.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> DatabaseBuilder {
        self.timeouts.connect = timeout;
        self
    }

    /// How long a call waits for its answer. Defaults to 15 seconds.
    #[must_use]
    pub fn call_timeout(mut self, timeout: Duration) -> DatabaseBuilder {
        self.timeouts.call = timeout;
        self
    }

    /// How long a call that reads or changes many letters waits for each of its answers.
    /// Defaults to a minute.
    #[must_use]
    pub fn bulk_timeout(mut self, timeout: Duration) -> DatabaseBuilder {
        self.timeouts.bulk = timeout;
        self
    }

    /// Opens the pool and makes sure that the server answers.
    ///
    /// # Errors
    /// *Invalid* when the URL cannot be read or the numbers make no sense; *unavailable* when the
    /// server cannot be reached in time.
    pub fn open(self) -> Result<Database> {
        let mut address: Address = self.url.parse()?;
        let Timeouts {
            connect,
            call,
            bulk,
        } = self.timeouts;
        let no_time = [connect, call, bulk].contains(&Duration::ZERO);
        if self.connections == 0 || no_time {
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
            config.connect_timeout(connect);
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
        let patience = config.get_connect_timeout().copied();
        let patience = patience.unwrap_or(connect);
        let dial = Dial::new(address, patience);
        // Once without the pool, which would hide why: a wrong password is told at once.
        let direct = dial.clone();
        let source = Source::new(Stuck::default(), move || {
            Ok(Session::new(Box::new(Direct {
                client: direct.dial()?,
                statements: Statements::default(),
            })))
        });
        Lane::new("redrive-connect", source, Between::GiveBack).call(
            "connect to the database",
            patience + Duration::from_secs(1),
            |_| Ok(()),
        )?;
        let pool = OwnPool::new(dial, self.connections, patience);
        let timeouts = Timeouts {
            connect: patience,
            ..self.timeouts
        };
        let db = Database::over(pool.source(), Pooler::default(), self.connections, timeouts);
        Ok(db.pooler(self.pooler))
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
            .field("pooler", &self.pooler)
            .field("connections", &self.connections)
            .field("connect_timeout", &self.timeouts.connect)
            .field("call_timeout", &self.timeouts.call)
            .field("bulk_timeout", &self.timeouts.bulk)
            .finish_non_exhaustive()
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
