//! Reads the database for scrapes, each of which is answered in time even if the database is silent.
//!
//! One thread reads when a scrape asks for it, and scrapes that overlap share a reading. Its calls have a
//! deadline, after which the next one gets another connection.

mod exposition;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use redrive::metrics::{Reader, Reading};

use self::exposition::render;
use crate::database_url::DatabaseUrl;
use crate::scrape_timeout::scrape_timeout;
use crate::source::Source;

pub(crate) use self::exposition::CONTENT_TYPE;

/// The exporter is ready if the database answered within this time.
const READY_FOR: Duration = Duration::from_secs(30);
/// The time limit of a readiness check.
const RECHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// Reads the database for scrapes.
pub(crate) struct Collector {
    shared: Arc<Shared>,
    max_waiting: usize,
}

impl Collector {
    /// Starts with a first reading. The database need not be reachable.
    ///
    /// While `max_waiting` scrapes wait for a reading, further ones get the last exposition at once.
    /// Waiting scrapes therefore never occupy all connections of the listener.
    pub(crate) fn start(database_url: DatabaseUrl, max_waiting: usize) -> Result<Collector> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new(env!("CARGO_PKG_VERSION"))),
            changed: Condvar::new(),
        });
        let (reading, mut source) = (Arc::clone(&shared), Source::new(database_url));
        thread::Builder::new()
            .name("reader".to_owned())
            .spawn(move || reading.read(|reader, limit| source.read(reader, limit)))
            .context("could not start the thread that reads the database")?;
        Ok(Collector {
            shared,
            max_waiting,
        })
    }

    /// Returns fresh metrics, or after `timeout` the last good ones with `redrive_up` 0.
    pub(crate) fn scrape(&self, timeout: Duration) -> Arc<Vec<u8>> {
        let end = Instant::now() + timeout;
        let left = || end.saturating_duration_since(Instant::now());
        let mut state = self.shared.state();
        if state.waiting >= self.max_waiting {
            return state.exposition.clone();
        }
        state.waiting += 1;
        // Scrapes that overlap share a reading.
        if !state.is_reading {
            state.asked = state.asked.max(Some(timeout));
            self.shared.changed.notify_all();
        }
        let wanted = state.completed + 1;
        while state.completed < wanted && !left().is_zero() {
            state = self.shared.wait(state, left());
        }
        state.waiting -= 1;
        match state.completed < wanted {
            true => state.stale_exposition(),
            false => state.exposition.clone(),
        }
    }

    /// Reads the database. Returns why the exporter is not ready, if so.
    pub(crate) fn trouble(&self) -> Option<&'static str> {
        self.scrape(RECHECK_TIMEOUT);
        let state = self.shared.state();
        let age = state.answered_at.map(|at| at.elapsed());
        match age.is_some_and(|age| age < READY_FOR) {
            true if state.is_schema_known => None,
            true => Some("The schema of the database is missing or unknown to this version."),
            false => Some("The database has not answered for 30 seconds."),
        }
    }
}

/// The state, its lock and its condition variable.
struct Shared {
    state: Mutex<State>,
    /// A scrape asks for a reading, or one was completed.
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

    /// Reads the database whenever a scrape asks for it.
    fn read(&self, mut read: impl FnMut(&Reader, Duration) -> (Reader, Reading)) {
        loop {
            let mut state = self.state();
            let limit = loop {
                if let Some(limit) = state.asked.take() {
                    break limit;
                }
                let changed = self.changed.wait(state);
                state = changed.unwrap_or_else(PoisonError::into_inner);
            };
            state.is_reading = true;
            let reader = Arc::clone(&state.reader);
            drop(state);
            let read = || {
                let (reader, reading) = read(&reader, limit);
                self.publish(reader, reading);
            };
            // The hook has logged a panic. The next scrape reads again.
            if catch_unwind(AssertUnwindSafe(read)).is_err() {
                let mut state = self.state();
                state.exposition = state.stale_exposition();
                state.end();
                drop(state);
                self.changed.notify_all();
            }
        }
    }

    fn publish(&self, reader: Reader, reading: Reading) {
        let answered = reading.is_connected.then_some(reading.is_ready);
        // Rendered before the lock is taken, because it takes a while.
        let exposition = render(reading.samples);
        let mut state = self.state();
        state.reader = Arc::new(reader);
        state.exposition = exposition;
        state.end();
        if let Some(is_known) = answered {
            state.answered_at = Some(Instant::now());
            state.is_schema_known = is_known;
        }
        drop(state);
        self.changed.notify_all();
    }
}

/// What scrapes and the reader share.
struct State {
    /// The most time that a scrape leaves for the next reading, if one wants it.
    asked: Option<Duration>,
    /// A reading is in progress.
    is_reading: bool,
    /// How many readings were completed.
    completed: u64,
    /// The number of scrapes that wait for a reading.
    waiting: usize,
    /// The exposition of the last reading. Scrapes share it.
    exposition: Arc<Vec<u8>>,
    /// When the database last answered.
    answered_at: Option<Instant>,
    /// Whether the schema was known then.
    is_schema_known: bool,
    /// The reader as the last reading left it, with the last good values.
    reader: Arc<Reader>,
    /// The last good values with `redrive_up` 0, once a scrape could not wait for the reading in progress. That ends in
    /// time, so series that are too old disappear.
    stale: Option<Arc<Vec<u8>>>,
}

impl State {
    /// Returns the state of an exporter that has read nothing yet, and should.
    fn new(version: &str) -> State {
        let mut reader = Reader::new(version);
        State {
            asked: Some(scrape_timeout(None)),
            is_reading: false,
            completed: 0,
            waiting: 0,
            exposition: render(reader.unreachable().samples),
            answered_at: None,
            is_schema_known: false,
            reader: Arc::new(reader),
            stale: None,
        }
    }

    /// Ends the reading in progress.
    fn end(&mut self) {
        self.is_reading = false;
        self.stale = None;
        self.completed += 1;
    }

    /// Returns the last good values with `redrive_up` 0.
    fn stale_exposition(&mut self) -> Arc<Vec<u8>> {
        let render_stale = || render(Reader::clone(&self.reader).unreachable().samples);
        self.stale.get_or_insert_with(render_stale).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_that_panics_is_followed_by_another_one() {
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new("1")),
            changed: Condvar::new(),
        });
        let reading = Arc::clone(&shared);
        // It ends with the process.
        thread::spawn(move || {
            reading.read(|reader, _| {
                assert!(reading.state().completed > 0, "the first one panics");
                let mut reader = reader.clone();
                let reading = reader.unreachable();
                (reader, reading)
            });
        });
        let collector = Collector {
            shared,
            max_waiting: 1,
        };
        for completed in 1..=2 {
            while collector.shared.state().completed < completed {
                collector.scrape(Duration::from_mins(1));
            }
        }
        assert!(collector.shared.state().answered_at.is_none());
    }
}
