//! Opens connections.
//!
//! Over TCP, the stream of the connection ends an attempt. Nothing ends one on a Unix socket, and nothing ends the lookup
//! of a name. The attempts of a pool run on its threads, for which no call waits longer than its deadline. The first one
//! has no pool yet, so it runs on a thread that is abandoned at the deadline.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use postgres::SimpleQueryMessage;
use uuid::Uuid;

use crate::db::connection::OwnConnection;
use crate::db::deadline::can_have_deadlines;
use crate::db::pooler::Pooler;
use crate::db::spawn::{refused, spawn};
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
    timeout: Duration,
    /// Whether each connection must prove that no other program uses its session.
    is_private: bool,
    /// Why the pool's last attempt failed, unless it succeeded.
    trouble: Arc<Mutex<Option<Error>>>,
    /// The connection of the first check, which the pool gets first.
    first: Arc<Mutex<Option<OwnConnection>>>,
}

impl Connector {
    pub(crate) fn new(mut address: ConnectOptions, timeout: Duration) -> Connector {
        let config = address.config_mut();
        // The driver tries one address after another, each for this long. The last one must have its share of the attempt,
        // and a name may have two: one of IPv6 and one of IPv4.
        if let Ok(addresses @ 1..) = u32::try_from(2 * config.get_hosts().len()) {
            config.connect_timeout(timeout / addresses);
        }
        Connector {
            address,
            timeout,
            is_private: false,
            trouble: Arc::default(),
            first: Arc::default(),
        }
    }

    /// Opens the first connection and keeps it for the pool. Without a declaration, it shows whether there is a pooler;
    /// if there is none, all later sessions must be private, too.
    ///
    /// # Errors
    /// *Unavailable* if the server does not answer in time; otherwise the server's error.
    pub(crate) fn begin(mut self, declared: Option<Pooler>) -> Result<(Connector, Pooler)> {
        let (until, connector) = (from_now(self.timeout), self.clone());
        let (reply, answer) = bounded(1);
        spawn("redrive-connect", move || {
            // If the caller gave up, this drops the connection.
            _ = reply.send(unless_refused(|| connector.open_first(declared, until)));
        })?;
        let (pooler, first) = match answer.recv_deadline(until) {
            // The stream may be earlier than this thread.
            Ok(Err(error)) if Instant::now() >= until && error.is_lost() => {
                return Err(self.no_answer().caused_by(error));
            }
            Ok(opened) => opened?,
            Err(_) => return Err(self.no_answer()),
        };
        self.is_private = declared.is_none() && matches!(pooler, Pooler::Session);
        *lock(&self.first) = Some(first);
        Ok((self, pooler))
    }

    /// Opens the first connection, and finds out whether there is a pooler, unless it is declared.
    fn open_first(
        &self,
        declared: Option<Pooler>,
        until: Instant,
    ) -> Result<(Pooler, OwnConnection)> {
        if let Some(pooler) = declared {
            return Ok((pooler, self.address.connect_until(until)?));
        }
        if let Some(private) = open_private(&self.address, until)? {
            return Ok((Pooler::Session, private));
        }
        let shared = self.address.connect_until(until)?;
        log::info!(
            "other programs may use the same sessions of the database, as behind a pooler, so \
             nothing is kept on them; if each session belongs to one client, declare \
             `Pooler::Session`, on the command line `--pooler session`"
        );
        Ok((Pooler::Transaction, shared))
    }

    /// Opens a later connection.
    fn open(&self) -> Result<OwnConnection> {
        let until = from_now(self.timeout);
        match self.is_private {
            false => self.address.connect_until(until),
            true => open_private(&self.address, until)?
                .ok_or_else(|| Error::refused(format!("could not open a connection: {SHARED}"))),
        }
    }

    /// Returns why the pool has no connection, if the last attempt failed.
    pub(crate) fn trouble(&self) -> Option<Error> {
        lock(&self.trouble).clone()
    }

    /// Returns whether its connections can have deadlines.
    pub(crate) fn can_have_deadlines(&self) -> bool {
        can_have_deadlines(self.address.config())
    }

    fn no_answer(&self) -> Error {
        Error::unavailable(format!(
            "could not connect to the database: it did not answer within {:?}",
            self.timeout
        ))
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
        let opened = unless_refused(|| self.open());
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
    use std::os::unix::net::UnixListener;
    use std::{env, fs};

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
            let connector = Connector::new(hosts.parse().expect("an address"), given);
            let per_host = connector.address.config().get_connect_timeout();
            assert_eq!(per_host, Some(&Duration::from_millis(share)), "{hosts}");
        }
    }

    #[test]
    fn an_attempt_on_a_silent_socket_is_over_at_its_deadline() {
        let folder = env::temp_dir().join(Uuid::new_v4().simple().to_string());
        fs::create_dir(&folder).expect("a folder");
        let silent = UnixListener::bind(folder.join(".s.PGSQL.5432")).expect("a socket");
        let address = format!("host={} user=me", folder.display());
        let address = address.parse().expect("an address");
        let hasty = Connector::new(address, Duration::from_millis(1));
        let error = hasty.begin(None).map(drop).expect_err("no answer");
        let said = "could not connect to the database: it did not answer within 1ms";
        assert!(
            error.is_unavailable() && error.to_string() == said,
            "{error:?}"
        );
        drop(silent);
        fs::remove_dir_all(&folder).expect("removed");
    }
}
