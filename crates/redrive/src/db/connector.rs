//! Opens connections within a deadline.
//!
//! Over TCP, the stream of the connection ends an attempt. Nothing ends one on a Unix socket, and
//! nothing ends the lookup of a name. Each attempt therefore runs on a thread that is abandoned at the
//! deadline.

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use postgres::{Config, SimpleQueryMessage};
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

/// The maximum number of abandoned attempts to reach a server. They end when the server or the name server does.
const MAX_ABANDONED: usize = 16;

/// The abandoned attempts of the whole process, each with its server, because each attempt to reach a silent server may
/// come from a new handle. The thread of one that has ended is gone.
static ABANDONED: Mutex<Vec<(String, Weak<()>)>> = Mutex::new(Vec::new());

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
        // The driver tries one host after another, each for this long. The last one must have its share of the attempt.
        if let Ok(hosts @ 2..) = u32::try_from(config.get_hosts().len()) {
            config.connect_timeout(timeout / hosts);
        }
        Connector {
            address,
            timeout,
            is_private: false,
            trouble: Arc::default(),
            first: Arc::default(),
        }
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// *Unavailable* if the server does not answer in time; otherwise the server's error.
    pub(crate) fn open(&self) -> Result<OwnConnection> {
        match self.is_private {
            false => self.attempt(ConnectOptions::connect_until),
            true => self
                .attempt(open_private)?
                .ok_or_else(|| Error::refused(format!("could not open a connection: {SHARED}"))),
        }
    }

    /// Opens the first connection and keeps it for the pool. Without a declaration, it shows whether there is a pooler;
    /// if there is none, all later sessions must be private, too.
    ///
    /// # Errors
    /// As [`open`](Connector::open).
    pub(crate) fn begin(mut self, declared: Option<Pooler>) -> Result<(Connector, Pooler)> {
        let find_pooler = |address: &ConnectOptions, until| -> Result<(Pooler, OwnConnection)> {
            if let Some(private) = open_private(address, until)? {
                return Ok((Pooler::Session, private));
            }
            let shared = address.connect_until(until)?;
            log::info!(
                "other programs may use the same sessions of the database, as behind a pooler, so \
                 nothing is kept on them; if each session belongs to one client, declare \
                 `Pooler::Session`, on the command line `--pooler session`"
            );
            Ok((Pooler::Transaction, shared))
        };
        let (pooler, first) = match declared {
            Some(pooler) => (pooler, self.open()?),
            None => self.attempt(find_pooler)?,
        };
        self.is_private = declared.is_none() && matches!(pooler, Pooler::Session);
        *lock(&self.first) = Some(first);
        Ok((self, pooler))
    }

    /// Returns why the pool has no connection, if the last attempt failed.
    pub(crate) fn trouble(&self) -> Option<Error> {
        lock(&self.trouble).clone()
    }

    /// Connects within the deadline, on a thread that is abandoned then.
    fn attempt<T: Send + 'static>(
        &self,
        connect: impl FnOnce(&ConnectOptions, Instant) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let server = server(self.address.config());
        if abandoned(&server) >= MAX_ABANDONED {
            return Err(Error::unavailable(format!(
                "could not connect to the database: it has not answered {MAX_ABANDONED} earlier attempts"
            )));
        }
        let (until, address) = (from_now(self.timeout), self.address.clone());
        let (reply, answer) = bounded(1);
        let running = Arc::new(());
        let attempt = Arc::downgrade(&running);
        spawn("redrive-connect", move || {
            // The driver panics if the host refuses what it needs.
            let connected = caught(|| connect(&address, until))
                .unwrap_or_else(|_| Err(refused("connect to the database")));
            // If the caller gave up, this drops the connection.
            _ = reply.send(connected);
            drop(running);
        })?;
        match answer.recv_deadline(until) {
            // The stream may be earlier than this thread.
            Ok(Err(error)) if Instant::now() >= until && error.is_lost() => {
                Err(self.no_answer().caused_by(error))
            }
            Ok(connected) => connected,
            Err(_) => {
                lock(&ABANDONED).push((server, attempt));
                Err(self.no_answer())
            }
        }
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
        *lock(&self.trouble) = opened.as_ref().err().cloned();
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

/// Returns what tells a server from others.
fn server(config: &Config) -> String {
    let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
    format!("{hosts:?} {addresses:?} {:?}", config.get_ports())
}

/// Returns how many abandoned attempts to reach a server have not ended.
fn abandoned(server: &str) -> usize {
    let mut all = lock(&ABANDONED);
    all.retain(|(_, attempt)| attempt.strong_count() > 0);
    all.iter().filter(|(of, _)| of == server).count()
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::path::Path;
    use std::{env, fs};

    use super::*;

    fn connector(folder: &Path, timeout: Duration) -> Connector {
        let address = format!("host={} user=me", folder.display());
        Connector::new(address.parse().expect("an address"), timeout)
    }

    #[test]
    fn each_host_has_its_share_of_an_attempt() {
        let given = Duration::from_secs(6);
        for (hosts, share) in [
            ("host=db connect_timeout=6 sslmode=disable", 6),
            ("host=db,db2,/run/postgresql sslmode=disable", 2),
            ("host=db,db2 connect_timeout=6 sslmode=disable", 3),
            ("hostaddr=127.0.0.1,127.0.0.2", 3),
        ] {
            let connector = Connector::new(hosts.parse().expect("an address"), given);
            let per_host = connector.address.config().get_connect_timeout();
            assert_eq!(per_host, Some(&Duration::from_secs(share)), "{hosts}");
        }
    }

    #[test]
    fn a_silent_server_gets_so_many_attempts_and_keeps_none_from_another() {
        let folder = env::temp_dir().join(Uuid::new_v4().simple().to_string());
        fs::create_dir(&folder).expect("a folder");
        let silent = UnixListener::bind(folder.join(".s.PGSQL.5432")).expect("a socket");
        let said = |connector: &Connector| {
            let error = connector.open().map(drop).expect_err("no answer");
            assert!(error.is_unavailable(), "{error:?}");
            error.to_string()
        };
        let hasty = connector(&folder, Duration::from_millis(1));
        for _ in 0..MAX_ABANDONED {
            assert!(said(&hasty).contains("did not answer within 1ms"));
        }
        assert!(said(&hasty).contains("16 earlier attempts"));
        let none = connector(&folder.join("none"), Duration::from_mins(1));
        assert_eq!(said(&none), "could not connect to the database");
        drop(silent);
        fs::remove_dir_all(&folder).expect("removed");
    }
}
