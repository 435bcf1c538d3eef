//! Reads the database for scrapes, with a deadline that holds even if the database is silent.
//!
//! Scrapes that overlap share one reading. Each reading has a thread of its own, because the driver
//! blocks for as long as a server stays silent while its network stack acknowledges what we send. A
//! thread that misses its deadline is abandoned with its connection and its late result is dropped.
//! It ends when the server answers or the connection breaks: by keepalives and the TCP user timeout
//! when the network is gone, by `statement_timeout` and `idle_in_transaction_session_timeout` on the
//! server. It sends no cancel request: that takes another connection, which a silent server does not
//! answer either.

mod exposition;
mod schedule;
mod state;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use redrive::metrics::{Reader, Reading};
use redrive::postgres::Client;

use self::schedule::SharedReading;
use self::state::State;
use crate::database_url::DatabaseUrl;
use crate::scrape_timeout::database_budget;

pub(crate) use self::exposition::CONTENT_TYPE;

/// The exporter is ready if the database answered within this time.
const READY_FOR: Duration = Duration::from_secs(30);
/// A readiness check reads the database if the last answer is older than this.
const RECHECK_AFTER: Duration = Duration::from_secs(10);
/// The time limit of a readiness check, and of the first reading.
const RECHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// Reads the database for scrapes.
pub(crate) struct Collector {
    shared: Arc<Shared>,
    max_waiting: usize,
}

/// Whether the exporter has fresh metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// The database answered recently and its schema is known.
    Ready,
    /// The database has not answered recently, or never.
    DatabaseAway,
    /// The schema does not exist yet, or this version does not know it.
    UnknownSchema,
}

impl Collector {
    /// Starts with a first reading. The database need not be reachable.
    ///
    /// While `max_waiting` scrapes wait for a reading, further ones get the last exposition at once.
    /// Waiting scrapes therefore never occupy all connections of the listener.
    pub(crate) fn start(database_url: DatabaseUrl, max_waiting: usize) -> Collector {
        let shared = Arc::new(Shared {
            database_url,
            state: Mutex::new(State::new(env!("CARGO_PKG_VERSION"))),
            changed: Condvar::new(),
        });
        shared.start_reading(&mut shared.state(), Instant::now(), RECHECK_TIMEOUT);
        Collector {
            shared,
            max_waiting,
        }
    }

    /// Returns fresh metrics, or after `timeout` the last good ones with `redrive_up` 0.
    pub(crate) fn scrape(&self, timeout: Duration) -> Arc<Vec<u8>> {
        let end = Instant::now() + timeout;
        let mut state = self.shared.state();
        if state.waiting >= self.max_waiting {
            return state.exposition.clone();
        }
        state.waiting += 1;
        let (mut state, is_fresh) = self.shared.wait_for_reading(state, end);
        state.waiting -= 1;
        match is_fresh {
            true => state.exposition.clone(),
            false => state.stale_exposition(),
        }
    }

    /// Returns whether the exporter is ready. Reads the database if its last answer is old.
    pub(crate) fn readiness(&self) -> Readiness {
        let age = self.shared.state().answered_at.map(|at| at.elapsed());
        if age.is_none_or(|age| age >= RECHECK_AFTER) {
            self.scrape(RECHECK_TIMEOUT);
        }
        let state = self.shared.state();
        match state.answered_at {
            Some(at) if at.elapsed() < READY_FOR => match state.is_schema_known {
                true => Readiness::Ready,
                false => Readiness::UnknownSchema,
            },
            _ => Readiness::DatabaseAway,
        }
    }

    /// Closes the connections. Returns whether they were closed within `timeout`.
    pub(crate) fn stop(&self, timeout: Duration) -> bool {
        let end = Instant::now() + timeout;
        let mut state = self.shared.state();
        state.schedule.close();
        while state.schedule.readers() > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.shared.wait(state, left);
        }
        state.connection = None;
        true
    }
}

/// The state, its lock and its condition variable.
struct Shared {
    database_url: DatabaseUrl,
    state: Mutex<State>,
    /// A reader has ended.
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is a single step, so the state is consistent after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change, at most this long.
    fn wait<'a>(&'a self, state: MutexGuard<'a, State>, limit: Duration) -> MutexGuard<'a, State> {
        self.changed
            .wait_timeout(state, limit)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }

    /// Waits until `end` for a reading that completes after this call. Returns whether one did.
    fn wait_for_reading<'a>(
        self: &'a Arc<Shared>,
        mut state: MutexGuard<'a, State>,
        end: Instant,
    ) -> (MutexGuard<'a, State>, bool) {
        let mut wanted = None;
        loop {
            let now = Instant::now();
            if state.schedule.abandon_overdue(now) {
                state.publish_stale();
            }
            if wanted.is_some_and(|number| state.schedule.is_completed(number)) {
                return (state, true);
            }
            if now >= end {
                return (state, false);
            }
            // After an abandoned reading there may be time for another one.
            self.start_reading(&mut state, now, end - now);
            let reading = state.schedule.current();
            wanted = reading.map(|reading| reading.number);
            let until = reading.map_or(end, |reading| reading.deadline.min(end));
            state = self.wait(state, until.saturating_duration_since(now));
        }
    }

    /// Starts a thread for a reading if none is in progress.
    fn start_reading(self: &Arc<Shared>, state: &mut State, now: Instant, limit: Duration) {
        let Some(reading) = state.schedule.start(now, limit) else {
            return;
        };
        let (reader, connection) = (state.reader.clone(), state.connection.take());
        let shared = Arc::clone(self);
        let started = thread::Builder::new()
            .name("reader".to_owned())
            .spawn(move || shared.read(reading, reader, connection));
        if let Err(error) = started {
            log::warn!("could not start a thread to read the database: {error}");
            state.schedule.ended(reading);
        }
    }

    /// Reads the database and publishes the result, unless the reading was abandoned.
    fn read(&self, reading: SharedReading, mut reader: Reader, connection: Option<Client>) {
        // Dropped after the connection: a reader counts for as long as it may have one.
        let _end = End {
            shared: self,
            reading,
        };
        let mut connection = connection;
        let result = read(&self.database_url, &mut reader, &mut connection, reading);
        let (result, error) = match result {
            Ok(result) => (result, None),
            Err(error) => (reader.unreachable(), Some(format!("{error:#}"))),
        };
        let schema_known = result.is_connected.then(|| result.is_ready());
        // Rendered before the lock is taken, because it takes a while.
        let exposition = exposition::render(result.families);
        let mut state = self.state();
        state.log_connection(error);
        if state.schedule.complete(reading) {
            state.publish(reader, exposition, schema_known);
        } else {
            log::debug!("dropped a reading that completed after its deadline");
        }
        if state.schedule.current().is_none() && state.connection.is_none() {
            state.connection = connection.take();
        }
    }
}

/// Reports the end of a reader, also after a panic.
struct End<'a> {
    shared: &'a Shared,
    reading: SharedReading,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.shared.state().schedule.ended(self.reading);
        self.shared.changed.notify_all();
    }
}

/// Reads the database. Connects if necessary, also if the connection turns out to be dead. Leaves the
/// connection if it can be used again.
fn read(
    database_url: &DatabaseUrl,
    reader: &mut Reader,
    connection: &mut Option<Client>,
    reading: SharedReading,
) -> Result<Reading> {
    let budget = || {
        let left = reading.read_until.saturating_duration_since(Instant::now());
        database_budget(left)
    };
    if let Some(client) = connection {
        let result = reader.read(client, budget());
        if result.is_connected {
            return Ok(result);
        }
        log::info!("the connection to the database was lost; reconnecting");
        *connection = None;
    }
    let mut client = database_url.connect()?;
    log::info!("connected to the database");
    let result = reader.read(&mut client, budget());
    *connection = result.is_connected.then_some(client);
    Ok(result)
}
