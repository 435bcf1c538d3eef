//! Opens connections.
//!
//! Over TCP, the stream of the connection ends an attempt. Nothing ends one on a Unix socket, and nothing ends the lookup
//! of a name. The first attempt is a call like others, and later ones run on the threads of the pool, for which no call
//! waits longer than its deadline.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use postgres::SimpleQueryMessage;
use uuid::Uuid;

use crate::db::connection::OwnConnection;
use crate::db::deadline::can_have_deadlines;
use crate::db::pooler::Pooler;
use crate::db::spawn::refused;
use crate::db::url::ConnectOptions;
use crate::error::driver::SHARED;
use crate::error::{Error, Result};
use crate::job::caught::caught;
use crate::job::wait::from_now;
use crate::sync::lock;

/// Opens connections to one server.
#[derive(Clone)]
pub(crate) struct Connector {
    address: ConnectOptions,
    /// The deadline of an attempt.
    pub(crate) timeout: Duration,
    declared: Option<Pooler>,
    /// What the first connection showed, unless it is declared.
    found: Arc<OnceLock<Pooler>>,
    /// Why the pool's last attempt failed, unless it succeeded.
    trouble: Arc<Mutex<Option<Error>>>,
    /// The first connection, which the pool gets first.
    first: Arc<Mutex<Option<OwnConnection>>>,
}

impl Connector {
    pub(crate) fn new(
        mut address: ConnectOptions,
        declared: Option<Pooler>,
        timeout: Duration,
    ) -> Connector {
        let config = address.config_mut();
        // The driver tries one address after another, each for this long. The last one must have its share of the attempt,
        // and a name may have two: one of IPv6 and one of IPv4.
        if let Ok(addresses @ 1..) = u32::try_from(2 * config.get_hosts().len()) {
            config.connect_timeout(timeout / addresses);
        }
        Connector {
            address,
            timeout,
            declared,
            found: Arc::default(),
            trouble: Arc::default(),
            first: Arc::default(),
        }
    }

    /// Opens the first connection and keeps it for the pool, which would hide an error such as a wrong password.
    pub(crate) fn begin(&self, until: Instant) -> Result<()> {
        let opened = unless_refused(|| self.open(until));
        *lock(&self.first) = Some(opened?);
        Ok(())
    }

    /// Opens a connection. Without a declaration, the first one shows whether there is a pooler; if there is none, all
    /// later sessions must be private, too.
    fn open(&self, until: Instant) -> Result<OwnConnection> {
        let found = self.found.get();
        if self.declared.is_some() || found == Some(&Pooler::Transaction) {
            return self.address.connect_until(until);
        }
        match (open_private(&self.address, until)?, found) {
            (Some(private), _) => {
                self.found.get_or_init(|| Pooler::Session);
                Ok(private)
            }
            (None, Some(_)) => Err(Error::refused(format!(
                "could not open a connection: {SHARED}"
            ))),
            (None, None) => {
                let shared = self.address.connect_until(until)?;
                self.found.get_or_init(|| Pooler::Transaction);
                log::info!(
                    "other programs may use the same sessions of the database, as behind a pooler, so \
                     nothing is kept on them; if each session belongs to one client, declare \
                     `Pooler::Session`, on the command line `--pooler session`"
                );
                Ok(shared)
            }
        }
    }

    /// Returns the pooler before the server: as declared, or as the first connection showed it.
    pub(crate) fn pooler(&self) -> Pooler {
        let known = self.declared.or_else(|| self.found.get().copied());
        known.unwrap_or(Pooler::Transaction)
    }

    /// Returns why the pool has no connection, if the last attempt failed.
    pub(crate) fn trouble(&self) -> Option<Error> {
        lock(&self.trouble).clone()
    }

    /// Returns whether its connections can have deadlines.
    pub(crate) fn can_have_deadlines(&self) -> bool {
        can_have_deadlines(self.address.config())
    }
}

// `r2d2_postgres::PostgresConnectionManager` is not used, because its connections have no deadlines.
impl r2d2::ManageConnection for Connector {
    type Connection = OwnConnection;
    type Error = Error;

    fn connect(&self) -> Result<OwnConnection> {
        if let Some(first) = lock(&self.first).take() {
            return Ok(first);
        }
        let opened = unless_refused(|| self.open(from_now(self.timeout)));
        *lock(&self.trouble) = opened.as_ref().err().cloned();
        opened
    }

    fn is_valid(&self, connection: &mut OwnConnection) -> Result<()> {
        let answer = connection.client.simple_query("");
        answer.map_err(|error| Error::from_postgres("use a connection", error))?;
        Ok(())
    }

    fn has_broken(&self, connection: &mut OwnConnection) -> bool {
        connection.is_discarded || connection.client.is_closed()
    }
}

/// Connects. The driver panics if the host refuses what it needs.
fn unless_refused<T>(connect: impl FnOnce() -> Result<T>) -> Result<T> {
    caught(connect).unwrap_or_else(|_| Err(refused("connect to the database")))
}

/// Opens a connection and proves that its session belongs to this program alone. `None`: another
/// program may use it too.
///
/// A server applies the startup options of a session. A pooler has opened its sessions before, so it
/// refuses options, or ignores them.
fn open_private(address: &ConnectOptions, until: Instant) -> Result<Option<OwnConnection>> {
    const ASKED: &str = "SELECT pg_catalog.current_setting('redrive.session', true)";
    let nonce = Uuid::new_v4().simple().to_string();
    let mut address = address.clone();
    let config = address.config_mut();
    let given = config.get_options().unwrap_or_default();
    // A call on a session that the server ended while it was idle would not know whether it took effect.
    let options = format!("-c idle_session_timeout=0 {given} -c redrive.session={nonce}");
    config.options(&options);
    let mut connection = match address.connect_until(until) {
        Err(error) if may_refuse_options(&error) => return Ok(None),
        opened => opened?,
    };
    let answer = connection
        .client
        .simple_query(ASKED)
        .map_err(|error| Error::from_postgres("check that a session is private", error))?;
    let is_private = answer.iter().any(|message| {
        matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some(nonce.as_str()))
    });
    Ok(is_private.then_some(connection))
}

/// Whether a connection may be possible without startup options: the server or the pooler refused it,
/// and not because of the role, the database, its load or its state.
fn may_refuse_options(error: &Error) -> bool {
    let others = ["28", "3D", "53", "55", "57"];
    error.sql_state().is_some_and(|state| {
        let code = state.code();
        !others.iter().any(|class| code.starts_with(class))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_its_share_of_an_attempt() {
        let given = Duration::from_secs(6);
        for (hosts, share) in [
            ("host=db connect_timeout=6 sslmode=disable", 3000),
            ("host=db,db2,/run/postgresql sslmode=disable", 1000),
            ("host=db,db2 connect_timeout=6 sslmode=disable", 1500),
            ("hostaddr=127.0.0.1,127.0.0.2", 1500),
        ] {
            let connector = Connector::new(hosts.parse().expect("an address"), None, given);
            let per_host = connector.address.config().get_connect_timeout();
            assert_eq!(per_host, Some(&Duration::from_millis(share)), "{hosts}");
        }
    }
}
