//! Opens connections within a deadline.
//!
//! The driver limits only the TCP connect: it waits forever for a server that accepts connections
//! and never answers. Each attempt therefore runs on a thread that is abandoned at the deadline and
//! ends with its socket. While attempts are abandoned, a probe with socket timeouts must succeed
//! before another one starts, so that their number stays small.

use std::fmt;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use postgres::config::Host;
use postgres::{Config, SimpleQueryMessage};
use uuid::Uuid;

use crate::db::abandoned::AbandonedCalls;
use crate::db::connection::OwnConnection;
use crate::db::deadline::can_have_deadlines;
use crate::db::host;
use crate::db::pooler::Pooler;
use crate::db::spawn::spawn;
use crate::db::url::ConnectOptions;
use crate::error::{Error, Result};
use crate::job::wait::from_now;

/// The maximum number of abandoned attempts on a Unix socket, which cannot be probed. They end
/// when the server does.
const MAX_ABANDONED: usize = 16;

/// The driver's default port.
const PORT: u16 = 5432;

/// The request to which every server answers one byte before authentication.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// The abandoned attempts of the whole process, because each attempt to reach a silent server may come from a new
/// handle; and the lookups of names.
static CONNECTING: LazyLock<AbandonedCalls> = LazyLock::new(AbandonedCalls::default);
static LOOKING_UP: LazyLock<AbandonedCalls> = LazyLock::new(AbandonedCalls::default);

/// Opens connections to one server.
#[derive(Clone)]
pub(crate) struct Connector {
    address: ConnectOptions,
    /// The deadline of an attempt.
    timeout: Duration,
    abandoned: AbandonedCalls,
    lookups: AbandonedCalls,
    /// Whether each connection must prove that no other program uses its session.
    is_private: bool,
    /// Why the pool's last attempt failed, unless it succeeded.
    trouble: Arc<Mutex<Option<Error>>>,
    /// The connection of the first check, which the pool gets first.
    first: Arc<Mutex<Option<OwnConnection>>>,
}

impl Connector {
    pub(crate) fn new(address: ConnectOptions, timeout: Duration) -> Connector {
        Connector {
            address,
            timeout,
            abandoned: CONNECTING.clone(),
            lookups: LOOKING_UP.clone(),
            is_private: false,
            trouble: Arc::default(),
            first: Arc::default(),
        }
    }

    /// Returns the same connector, which only opens sessions that no other program uses.
    pub(crate) fn private(self) -> Connector {
        Connector {
            is_private: true,
            ..self
        }
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// *Unavailable* if the server does not answer in time; otherwise the server's error.
    pub(crate) fn open(&self) -> Result<OwnConnection> {
        match self.is_private {
            false => self.attempt(ConnectOptions::connect_with_deadline),
            true => self
                .attempt(open_private)?
                .ok_or_else(|| Error::pooled("open a connection")),
        }
    }

    /// Checks that the server accepts connections, and keeps the connection for the pool.
    ///
    /// # Errors
    /// As [`open`](Connector::open).
    pub(crate) fn check(&self) -> Result<()> {
        self.keep(self.open()?);
        Ok(())
    }

    /// Finds out whether there is a pooler, and keeps the connection for the pool.
    ///
    /// # Errors
    /// As [`open`](Connector::open).
    pub(crate) fn find_pooler(&self) -> Result<Pooler> {
        let (pooler, first) = self.attempt(|address| {
            if let Some(private) = open_private(address)? {
                return Ok((Pooler::Session, private));
            }
            let shared = address.connect_with_deadline()?;
            log::info!(
                "other programs may use the same sessions of the database, as behind a pooler, so \
                 nothing is kept on them; if each session belongs to one client, declare \
                 `Pooler::Session`, on the command line `--pooler session`"
            );
            Ok((Pooler::Transaction, shared))
        })?;
        self.keep(first);
        Ok(pooler)
    }

    fn keep(&self, first: OwnConnection) {
        *lock(&self.first) = Some(first);
    }

    /// Returns why the pool has no connection, if the last attempt failed.
    pub(crate) fn trouble(&self) -> Option<Error> {
        lock(&self.trouble).as_ref().map(Error::shared)
    }

    /// Connects within the deadline.
    fn attempt<T: Send + 'static>(
        &self,
        connect: impl FnOnce(&ConnectOptions) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let until = from_now(self.timeout);
        if self.abandoned.calls() > 0 {
            self.check_server_answers(until)?;
        }
        let address = self.address.clone();
        self.within(until, &self.abandoned, move || connect(&address))
    }

    /// Makes a call on a thread, which is abandoned at the deadline.
    fn within<T: Send + 'static>(
        &self,
        until: Instant,
        abandoned: &AbandonedCalls,
        call: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        const DOING: &str = "connect to the database";
        let (reply, answer) = bounded(1);
        let ticket = abandoned.ticket();
        let mine = ticket.clone();
        spawn("redrive-connect", move || {
            if mine.begin() {
                let answered =
                    host::check_driver(DOING).and_then(|()| host::caught(DOING, call).flatten());
                mine.end();
                // If the caller gave up, this drops the connection.
                _ = reply.send(answered);
            }
        })?;
        answer.recv_deadline(until).unwrap_or_else(|_| {
            ticket.abandon();
            Err(self.no_answer())
        })
    }

    /// Returns whether its connections can have deadlines.
    pub(crate) fn can_have_deadlines(&self) -> bool {
        can_have_deadlines(self.address.config())
    }

    /// Checks that the server answers, because earlier attempts are still unanswered.
    fn check_server_answers(&self, until: Instant) -> Result<()> {
        let config = self.address.config().clone();
        let addresses = self.look_up(until, move || tcp_addresses(&config))?;
        let is_there = match addresses.is_empty() {
            true => self.abandoned.calls() < MAX_ABANDONED,
            false => addresses.iter().any(|address| answers(*address, until)),
        };
        match is_there {
            true => Ok(()),
            false => Err(self.no_answer()),
        }
    }

    /// Looks up addresses, unless an earlier lookup is still unanswered: the host may wait for a name server for long.
    fn look_up(
        &self,
        until: Instant,
        look_up: impl FnOnce() -> Vec<SocketAddr> + Send + 'static,
    ) -> Result<Vec<SocketAddr>> {
        match self.lookups.calls() {
            0 => self.within(until, &self.lookups, || Ok(look_up())),
            _ => Err(self.no_answer()),
        }
    }

    fn no_answer(&self) -> Error {
        Error::unavailable(format!(
            "could not connect to the database: it did not answer within {:?}",
            self.timeout
        ))
    }
}

// `r2d2_postgres::PostgresConnectionManager` is not used, because its `connect` blocks forever on a
// silent server. Inside `open` it would only forward to the driver, and its errors have another type.
impl r2d2::ManageConnection for Connector {
    type Connection = OwnConnection;
    type Error = Error;

    fn connect(&self) -> Result<OwnConnection> {
        if let Some(first) = lock(&self.first).take() {
            return Ok(first);
        }
        let opened = self.open();
        *lock(&self.trouble) = opened.as_ref().err().map(Error::shared);
        opened
    }

    fn is_valid(&self, connection: &mut OwnConnection) -> Result<()> {
        connection
            .client()
            .simple_query("")
            .map(drop)
            .map_err(|error| Error::from_postgres("use a connection", error))
    }

    fn has_broken(&self, connection: &mut OwnConnection) -> bool {
        connection.is_broken()
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector")
            .field("address", &self.address)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Locks a value that a panic cannot leave half written.
fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens a connection and proves that its session belongs to this program alone. `None`: another
/// program may use it too.
///
/// A server applies the startup options of a session. A pooler has opened its sessions before, so it
/// refuses options, or ignores them.
fn open_private(address: &ConnectOptions) -> Result<Option<OwnConnection>> {
    const ASKED: &str = "SELECT pg_catalog.current_setting('redrive.session', true)";
    let nonce = Uuid::new_v4().simple().to_string();
    let mut address = address.clone();
    let config = address.config_mut();
    let given = config.get_options().unwrap_or_default();
    // A call on a session that the server ended while it was idle would not know whether it took effect.
    let options = format!("-c idle_session_timeout=0 {given} -c redrive.session={nonce}");
    config.options(&options);
    let mut connection = match address.connect_with_deadline() {
        Err(error) if may_refuse_options(&error) => return Ok(None),
        opened => opened?,
    };
    let answer = connection
        .client()
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

/// Returns the TCP addresses of the hosts, as the driver resolves them.
fn tcp_addresses(config: &Config) -> Vec<SocketAddr> {
    let port = |at: usize| {
        let ports = config.get_ports();
        ports.get(at).or(ports.first()).copied().unwrap_or(PORT)
    };
    let addresses = config.get_hostaddrs();
    if !addresses.is_empty() {
        let socket = |(at, ip): (usize, &std::net::IpAddr)| SocketAddr::new(*ip, port(at));
        return addresses.iter().enumerate().map(socket).collect();
    }
    let named = config.get_hosts().iter().enumerate();
    named
        .filter_map(|(at, host)| match host {
            Host::Tcp(name) => (&**name, port(at)).to_socket_addrs().ok(),
            Host::Unix(_) => None,
        })
        .flatten()
        .collect()
}

/// Whether the address answers in time. A refused connection is an answer.
fn answers(address: SocketAddr, until: Instant) -> bool {
    let left = || {
        let left = until.saturating_duration_since(Instant::now());
        left.max(Duration::from_millis(1))
    };
    let ask = || {
        let mut stream = TcpStream::connect_timeout(&address, left())?;
        stream.set_write_timeout(Some(left()))?;
        stream.write_all(&SSL_REQUEST)?;
        stream.set_read_timeout(Some(left()))?;
        stream.read(&mut [0])
    };
    match ask() {
        Ok(_) => true,
        Err(error) => ![ErrorKind::TimedOut, ErrorKind::WouldBlock].contains(&error.kind()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Long enough for a server that answers, short enough to wait for one that does not.
    const MOMENT: Duration = Duration::from_millis(200);

    fn address(port: u16) -> ConnectOptions {
        format!("host=127.0.0.1 port={port} user=me")
            .parse()
            .expect("an address")
    }

    #[test]
    fn tcp_addresses_match_those_of_the_driver() {
        for (address, expected) in [
            ("host=127.0.0.1 user=me", vec!["127.0.0.1:5432"]),
            ("host=db hostaddr=127.0.0.2 port=7", vec!["127.0.0.2:7"]),
            (
                "host=127.0.0.1,127.0.0.2 port=7,8",
                vec!["127.0.0.1:7", "127.0.0.2:8"],
            ),
            ("host=/run/postgresql", vec![]),
        ] {
            let config: Config = address.parse().expect("an address");
            let found = tcp_addresses(&config);
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{address}");
        }
    }

    #[test]
    fn a_silent_server_gets_one_attempt_and_is_then_probed() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("listen");
        let port = silent.local_addr().expect("a port").port();
        let connector = Connector {
            abandoned: AbandonedCalls::default(),
            ..Connector::new(address(port), MOMENT)
        };
        for _ in 0..3 {
            let error = connector.open().map(drop).expect_err("no answer");
            assert!(error.is_unavailable(), "{error:?}");
            assert_eq!(connector.abandoned.calls(), 1, "exactly one attempt");
        }
        // A refused connection is an answer.
        drop(silent);
        let error = connector.open().map(drop).expect_err("refused");
        assert!(!error.to_string().contains("within"), "{error:?}");
    }

    #[test]
    fn a_lookup_ends_at_the_deadline_and_no_other_begins_meanwhile() {
        let connector = Connector {
            lookups: AbandonedCalls::default(),
            ..Connector::new(address(1), MOMENT)
        };
        let (release, held) = bounded::<()>(0);
        let hangs = move || {
            // Returns when the test drops its side.
            _ = held.recv();
            Vec::new()
        };
        let error = connector.look_up(from_now(MOMENT), hangs);
        assert!(error.expect_err("no answer").is_unavailable());
        assert_eq!(connector.lookups.calls(), 1);
        let other = || unreachable!("one lookup at a time");
        let error = connector.look_up(from_now(MOMENT), other);
        assert!(error.expect_err("no other").is_unavailable());
        drop(release);
    }
}
