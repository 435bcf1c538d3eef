//! Opens a pool: its settings and the first connection.

use std::time::Duration;

use crate::db::database::{
    DEFAULT_BULK_TIMEOUT, DEFAULT_CALL_TIMEOUT, DEFAULT_CONNECTIONS, Database,
};
use crate::db::pool;
use crate::db::pooler::Pooler;
use crate::db::url::ConnectOptions;
use crate::error::{Error, Result};
use crate::job::setters::setters;
use crate::job::wait::MAX_WAIT;

/// The most connections of a pool, which reserves memory for them.
const MAX_CONNECTIONS: u32 = 10_000;

/// The driver's default idle time before keepalives.
const DRIVER_KEEPALIVE: Duration = Duration::from_hours(2);

/// The settings of a new pool; see [`Database::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct DatabaseBuilder {
    /// The parsed URL, which does not show its password.
    address: Result<ConnectOptions>,
    application_name: String,
    pooler: Option<Pooler>,
    connections: u32,
    connect_timeout: Duration,
    call_timeout: Duration,
    bulk_timeout: Duration,
}

impl DatabaseBuilder {
    pub(super) fn new(url: &str) -> DatabaseBuilder {
        DatabaseBuilder {
            address: url.parse(),
            application_name: "redrive".to_owned(),
            pooler: None,
            connections: DEFAULT_CONNECTIONS,
            connect_timeout: Duration::from_secs(10),
            call_timeout: DEFAULT_CALL_TIMEOUT,
            bulk_timeout: DEFAULT_BULK_TIMEOUT,
        }
    }

    setters! {
        /// Sets the name of the sessions in `pg_stat_activity`. Defaults to `redrive`. An `application_name` in the URL
        /// takes precedence.
        pub fn application_name(self, name: impl Into<String>) => self.application_name = name.into();

        /// Sets the maximum number of connections, 1 to 10,000. Defaults to 10. A worker needs 5.
        pub fn connections(self, connections: u32) => self.connections = connections;

        /// Declares the pooler between this program and the server. By default, [`open`] finds out whether
        /// each connection has its own session.
        ///
        /// [`open`]: DatabaseBuilder::open
        pub fn pooler(self, pooler: Pooler) => self.pooler = Some(pooler);

        /// Sets the deadline for opening a connection, including authentication. Defaults to 10
        /// seconds. A `connect_timeout` in the URL takes precedence. Several hosts share it equally, and so do the two
        /// addresses that a name may have.
        pub fn connect_timeout(self, timeout: Duration) => self.connect_timeout = timeout;

        /// Sets the deadline of a call. Defaults to 15 seconds.
        pub fn call_timeout(self, timeout: Duration) => self.call_timeout = timeout;

        /// Sets the deadline of each statement that reads or changes many letters. Defaults to 1
        /// minute.
        pub fn bulk_timeout(self, timeout: Duration) => self.bulk_timeout = timeout;
    }

    /// Opens the pool and checks that the server answers.
    ///
    /// # Errors
    /// *Invalid* if the URL cannot be parsed or a number is zero. *Unavailable* if the server
    /// cannot be reached in time.
    pub fn open(self) -> Result<Database> {
        let mut address = self.address?;
        let (call, bulk) = (self.call_timeout, self.bulk_timeout);
        if [self.connect_timeout, call, bulk].contains(&Duration::ZERO) {
            return Err(Error::invalid("timeouts must be greater than zero"));
        }
        if !(1..=MAX_CONNECTIONS).contains(&self.connections) {
            return Err(Error::invalid(format!(
                "the pool has {} connections; it must have 1 to {MAX_CONNECTIONS}",
                self.connections
            )));
        }
        let config = address.config_mut();
        if config.get_application_name().is_none() {
            config.application_name(&self.application_name);
        }
        // Notice a dead network within seconds instead of hours, unless the URL sets this.
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(Duration::from_secs(15));
        }
        if config.get_keepalives_idle() == DRIVER_KEEPALIVE {
            config
                .keepalives_idle(Duration::from_secs(30))
                .keepalives_interval(Duration::from_secs(10))
                .keepalives_retries(3);
        }
        let timeout = config.get_connect_timeout().copied();
        let timeout = timeout.unwrap_or(self.connect_timeout).min(MAX_WAIT);
        let connections = self.connections;
        let (source, pooler) = pool::open(address, self.pooler, connections, timeout)?;
        Ok(Database::over(source, pooler, connections, call, bulk))
    }
}
