//! A reader thread: holds one connection and reads the database on request.

use std::time::{Duration, Instant};

use redrive::Backoff;
use redrive::metrics::{Reader, Reading};
use redrive::postgres::Client;

use super::shared_reading::{ReaderId, SharedReading};
use super::state::{Next, Shared};
use crate::database_url::DatabaseUrl;
use crate::error::Error;
use crate::scrape_timeout::database_budget;

/// The delay after the first failed attempt to connect, and the longest. Jitter takes up to half of it off.
const MIN_DELAY: Duration = Duration::from_millis(500);
const MAX_DELAY: Duration = Duration::from_secs(30);
/// A request this soon after a failed attempt to connect fails too, without another attempt.
const RECONNECT_GAP: Duration = Duration::from_millis(250);

/// Runs until another thread is the leader or the collector stops.
pub(super) fn run(shared: &Shared, database_url: &DatabaseUrl, id: ReaderId) {
    // Dropped after the connection: a reader counts for as long as it may have one.
    let _exit = ExitGuard { shared, id };
    let mut connection = DatabaseConnection::new(database_url);
    loop {
        match shared.next(id, connection.reconnect_delay()) {
            Next::Exit => return,
            Next::TimedOut => connection.connect(),
            Next::Read(reading, mut reader) => {
                let result = connection.read(&mut reader, reading);
                shared.deliver(id, reading, *reader, result);
            }
        }
    }
}

/// Reports the end of the thread, also after a panic.
struct ExitGuard<'a> {
    shared: &'a Shared,
    id: ReaderId,
}

impl Drop for ExitGuard<'_> {
    fn drop(&mut self) {
        self.shared.exited(self.id);
    }
}

/// A connection to the database, which may be down.
struct DatabaseConnection<'a> {
    database_url: &'a DatabaseUrl,
    client: Option<Client>,
    /// Failed attempts to connect in a row.
    failures: u32,
    /// When the last one failed.
    failed_at: Option<Instant>,
    /// The last error that was logged as a warning.
    logged: Option<String>,
}

impl DatabaseConnection<'_> {
    fn new(database_url: &DatabaseUrl) -> DatabaseConnection<'_> {
        DatabaseConnection {
            database_url,
            client: None,
            failures: 0,
            failed_at: None,
            logged: None,
        }
    }

    /// Returns how long to wait for a request before the next attempt to connect; `None` while
    /// connected.
    fn reconnect_delay(&self) -> Option<Duration> {
        match (&self.client, self.failed_at) {
            (Some(_), _) => None,
            (None, None) => Some(Duration::ZERO),
            (None, Some(_)) => {
                let backoff = Backoff::exponential(MIN_DELAY).max(MAX_DELAY);
                Some(backoff.delay(self.failures, 0.5 + fastrand::f64() / 2.0))
            }
        }
    }

    /// Reads the database. Connects first if necessary, and reconnects once if the connection turns
    /// out to be dead.
    fn read(&mut self, reader: &mut Reader, reading: SharedReading) -> Reading {
        let was_connected = self.client.is_some();
        let result = self.read_once(reader, reading);
        if was_connected && !result.is_connected {
            log::info!("the connection to the database was lost; reconnecting");
            return self.read_once(reader, reading);
        }
        result
    }

    fn read_once(&mut self, reader: &mut Reader, reading: SharedReading) -> Reading {
        let may_connect = self
            .failed_at
            .is_none_or(|at| at.elapsed() >= RECONNECT_GAP);
        if self.client.is_none() && may_connect {
            self.connect();
        }
        let Some(client) = &mut self.client else {
            return reader.unreachable();
        };
        let left = reading.read_until.saturating_duration_since(Instant::now());
        let result = reader.read(client, database_budget(left));
        if !result.is_connected {
            self.client = None;
        }
        result
    }

    fn connect(&mut self) {
        match self.database_url.connect() {
            Ok(client) => {
                log::info!("connected to the database");
                self.client = Some(client);
                self.failures = 0;
                self.failed_at = None;
                self.logged = None;
            }
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                self.failed_at = Some(Instant::now());
                self.log(&error);
            }
        }
    }

    /// Logs an error as a warning, and its repetitions at the debug level.
    fn log(&mut self, error: &Error) {
        let text = error.to_string();
        if self.logged.as_ref() == Some(&text) {
            log::debug!("{text}");
            return;
        }
        log::warn!("retrying within 30 s: {text}");
        self.logged = Some(text);
    }
}
