//! The library's pool of connections.
//!
//! Over TCP, the stream of a connection ends the attempt to open it. Nothing ends one on a Unix socket, and nothing ends
//! the lookup of a name. So all attempts run on threads of the pool, for which no call waits longer than its deadline.

use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use postgres::SimpleQueryMessage;
use r2d2::{NopErrorHandler, Pool};
use scheduled_thread_pool::{OnPoolDropBehavior, ScheduledThreadPool};
use uuid::Uuid;

use crate::db::caller::{Deadlines, SessionSource};
use crate::db::connection::OwnConnection;
use crate::db::deadline::can_have_deadlines;
use crate::db::pooler::Pooler;
use crate::db::session::Session;
use crate::db::spawn::refused;
use crate::db::url::ConnectOptions;
use crate::error::driver::SHARED;
use crate::error::{Error, Result};
use crate::job::caught::caught;
use crate::job::wait::from_now;
use crate::sync::lock;

/// The number of connections opened in parallel.
const THREADS: usize = 3;

/// The maximum number of abandoned first attempts of a process. They end when the server or the name server does.
const MAX_ABANDONED: usize = 16;

/// The abandoned attempts. One that has ended is gone.
static ABANDONED: Mutex<Vec<Weak<Attempts>>> = Mutex::new(Vec::new());

/// Opens a pool and its first connection. Returns the source of its sessions, and the pooler, as declared or found.
///
/// # Errors
/// *Unavailable* if the server does not answer in time; otherwise the server's error.
pub(crate) fn open(
    mut address: ConnectOptions,
    declared: Option<Pooler>,
    connections: u32,
    timeout: Duration,
) -> Result<(SessionSource, Pooler)> {
    if abandoned() >= MAX_ABANDONED {
        return Err(Error::unavailable(format!(
            "could not connect to the database: no answer to {MAX_ABANDONED} earlier attempts"
        )));
    }
    let deadlines = match can_have_deadlines(address.config()) {
        true => Deadlines::ByConnection,
        false => Deadlines::ByThread,
    };
    let attempts = Arc::<Attempts>::default();
    share_out(&mut address, timeout);
    let connector = Connector {
        address,
        declared,
        timeout,
        attempts: Arc::clone(&attempts),
    };
    // The pool panics if the host refuses one.
    let threads = caught(|| {
        // These threads end with the pool instead of with its last scheduled job.
        ScheduledThreadPool::builder()
            .num_threads(THREADS)
            .thread_name_pattern("redrive-pool-{}")
            .on_drop_behavior(OnPoolDropBehavior::DiscardPendingScheduled)
            .build()
    });
    let threads = threads.map_err(|_| refused("start the threads of a pool"))?;
    // The first attempt bypasses the pool, which would repeat it and hide an error such as a wrong password.
    let (until, first, (reply, answer)) = (from_now(timeout), connector.clone(), bounded(1));
    // If the caller gave up, this drops the connection.
    threads.execute(move || _ = reply.send(first.attempt()));
    let no_answer = || {
        let what = "could not connect to the database: it did not answer within";
        Error::unavailable(format!("{what} {timeout:?}"))
    };
    let (pooler, first) = match answer.recv_deadline(until) {
        // The stream may be earlier than this thread.
        Ok(Err(error)) if Instant::now() >= until && error.is_lost() => {
            return Err(no_answer().caused_by(error));
        }
        Ok(opened) => opened?,
        Err(_) => {
            lock(&ABANDONED).push(Arc::downgrade(&attempts));
            return Err(no_answer());
        }
    };
    *lock(&attempts.first) = Some(first);
    let pool = Pool::builder()
        .thread_pool(Arc::new(threads))
        .max_size(connections)
        .min_idle(Some(0))
        .connection_timeout(timeout)
        // The call that needed the connection reports its errors.
        .error_handler(Box::new(NopErrorHandler))
        .build_unchecked(connector);
    let source = SessionSource::new(deadlines, move |wait| {
        let connection = pool.get_timeout(wait.min(timeout)).map_err(|error| {
            let none = Error::unavailable("could not get a connection to the database");
            // The pool only says that there was none in time.
            match lock(&attempts.trouble).clone() {
                Some(trouble) => none.caused_by(trouble),
                None => none.caused_by(error),
            }
        })?;
        Ok(Session::new(Box::new(connection), pooler))
    });
    // The pool closes a connection that is idle for long; the connector would keep it.
    drop(source.session(timeout)?);
    Ok((source, pooler))
}

/// Gives each address its share of an attempt, because the driver tries one after another. A name may have two: one of
/// IPv6 and one of IPv4.
fn share_out(address: &mut ConnectOptions, attempt: Duration) {
    let config = address.config_mut();
    if let Ok(addresses @ 1..) = u32::try_from(2 * config.get_hosts().len()) {
        config.connect_timeout(attempt / addresses);
    }
}

/// Opens connections to one server.
#[derive(Clone)]
struct Connector {
    address: ConnectOptions,
    declared: Option<Pooler>,
    /// The deadline of an attempt.
    timeout: Duration,
    attempts: Arc<Attempts>,
}

/// What the attempts of a pool have led to.
#[derive(Default)]
struct Attempts {
    /// What the first one found without a declaration.
    found: OnceLock<Pooler>,
    /// The connection of the first one, which the pool gets first.
    first: Mutex<Option<OwnConnection>>,
    /// Why the last one failed, unless it succeeded.
    trouble: Mutex<Option<Error>>,
}

impl Connector {
    /// Opens a connection. Without a declaration, the first one shows whether there is a pooler; if there is none, all
    /// later sessions must be private, too.
    fn open(&self) -> Result<(Pooler, OwnConnection)> {
        let until = from_now(self.timeout);
        if let Some(pooler) = self.declared {
            return Ok((pooler, self.address.connect_until(until)?));
        }
        let found = self.attempts.found.get();
        if found != Some(&Pooler::Transaction) {
            if let Some(private) = open_private(&self.address, until)? {
                return Ok((
                    *self.attempts.found.get_or_init(|| Pooler::Session),
                    private,
                ));
            }
            if found.is_some() {
                let refused = format!("could not open a connection: {SHARED}");
                return Err(Error::refused(refused));
            }
        }
        let shared = self.address.connect_until(until)?;
        if found.is_none() {
            log::info!(
                "other programs may use the same sessions of the database, as behind a pooler, so \
                 nothing is kept on them; if each session belongs to one client, declare \
                 `Pooler::Session`, on the command line `--pooler session`"
            );
        }
        Ok((
            *self.attempts.found.get_or_init(|| Pooler::Transaction),
            shared,
        ))
    }

    /// Opens a connection. The driver panics if the host refuses what it needs.
    fn attempt(&self) -> Result<(Pooler, OwnConnection)> {
        caught(|| self.open()).unwrap_or_else(|_| Err(refused("connect to the database")))
    }
}

// `r2d2_postgres::PostgresConnectionManager` is not used, because its connections have no deadlines.
impl r2d2::ManageConnection for Connector {
    type Connection = OwnConnection;
    type Error = Error;

    fn connect(&self) -> Result<OwnConnection> {
        if let Some(first) = lock(&self.attempts.first).take() {
            return Ok(first);
        }
        let opened = self.attempt().map(|(_, connection)| connection);
        *lock(&self.attempts.trouble) = opened.as_ref().err().cloned();
        opened
    }

    /// A broken connection shows at its next use. A test would double the round trips.
    fn is_valid(&self, _: &mut OwnConnection) -> Result<()> {
        Ok(())
    }

    fn has_broken(&self, connection: &mut OwnConnection) -> bool {
        connection.is_discarded || connection.client.is_closed()
    }
}

/// Returns how many abandoned attempts have not ended.
fn abandoned() -> usize {
    let mut all = lock(&ABANDONED);
    all.retain(|attempt| attempt.strong_count() > 0);
    all.len()
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
            let mut address: ConnectOptions = hosts.parse().expect("an address");
            share_out(&mut address, given);
            let per_host = address.config().get_connect_timeout();
            assert_eq!(per_host, Some(&Duration::from_millis(share)), "{hosts}");
        }
    }

    #[test]
    fn a_silent_server_gets_so_many_attempts() {
        let folder = env::temp_dir().join(Uuid::new_v4().simple().to_string());
        fs::create_dir(&folder).expect("a folder");
        let silent = UnixListener::bind(folder.join(".s.PGSQL.5432")).expect("a socket");
        let address = format!("host={} user=me", folder.display());
        let said = || {
            let address = address.parse().expect("an address");
            let opened = open(address, None, 1, Duration::from_millis(1));
            let error = opened.map(drop).expect_err("no answer");
            assert!(error.is_unavailable(), "{error:?}");
            error.to_string()
        };
        // An attempt that had not begun by its deadline is discarded instead.
        let answers: Vec<String> = (0..100 * MAX_ABANDONED).map(|_| said()).collect();
        let (hasty, others) = answers.split_at(MAX_ABANDONED);
        let is_late = |it: &String| it.contains("did not answer within 1ms");
        assert!(hasty.iter().all(is_late));
        assert!(others.iter().any(|it| it.contains("16 earlier attempts")));
        drop(silent);
        fs::remove_dir_all(&folder).expect("removed");
    }
}
