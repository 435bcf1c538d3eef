//! Reads the database for scrapes, with a deadline that holds even if the database is silent.
//!
//! Scrapes that overlap share one reading. Each connection belongs to a [reader thread](reader), and
//! nothing else touches it, because the driver blocks for as long as a server stays silent while its
//! network stack acknowledges what we send. A thread that misses its deadline is abandoned with its
//! connection and its late result is dropped. It ends when the server answers or the connection
//! breaks: by keepalives and the TCP user timeout when the network is gone, by `statement_timeout` and
//! `idle_in_transaction_session_timeout` on the server. It sends no cancel request: that takes
//! another connection, which a silent server does not answer either.

mod exposition;
mod shared_reading;
mod state;
mod reader;

use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use self::shared_reading::ReaderId;
use self::state::{Shared, State};
use crate::database_url::DatabaseUrl;

pub(crate) use self::exposition::CONTENT_TYPE;
#[cfg(test)]
pub(crate) use self::exposition::render;

/// The exporter is ready if the database answered within this time.
const READY_FOR: Duration = Duration::from_secs(30);
/// A readiness check reads the database if the last answer is older than this.
const RECHECK_AFTER: Duration = Duration::from_secs(10);
/// The time limit of a readiness check.
const RECHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// Reads the database for scrapes.
#[derive(Debug)]
pub(crate) struct Collector {
    shared: Arc<Shared>,
    database_url: Arc<DatabaseUrl>,
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
    /// Starts to connect. The database need not be reachable.
    ///
    /// While `max_waiting` scrapes wait for a reading, further ones get the last exposition at once.
    /// Waiting scrapes therefore never occupy all connections of the listener.
    pub(crate) fn start(database_url: DatabaseUrl, max_waiting: usize) -> Collector {
        let collector = Collector {
            shared: Arc::new(Shared::new(env!("CARGO_PKG_VERSION"))),
            database_url: Arc::new(database_url),
            max_waiting,
        };
        collector.start_missing_reader(&mut collector.shared.state());
        collector
    }

    /// Returns fresh metrics, or after `timeout` the last good ones with `redrive_up` 0.
    pub(crate) fn scrape(&self, timeout: Duration) -> Arc<Vec<u8>> {
        let end = Instant::now() + timeout;
        let mut state = self.shared.state();
        if state.waiting >= self.max_waiting {
            return state.exposition.clone();
        }
        state.waiting += 1;
        let (mut state, is_fresh) = self.wait_for_reading(state, end);
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
        self.shared.notify();
        while state.schedule.readers() > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.shared.wait(state, left);
        }
        true
    }

    /// Waits until `end` for a reading that completes after this call. Returns whether one did.
    fn wait_for_reading<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        end: Instant,
    ) -> (MutexGuard<'a, State>, bool) {
        loop {
            let now = Instant::now();
            if state.schedule.abandon_overdue(now) {
                state.publish_stale();
            }
            if now >= end {
                return (state, false);
            }
            let reading = state.schedule.join(now, end - now);
            self.start_missing_reader(&mut state);
            self.shared.notify();
            while !state.schedule.is_over(reading) {
                let until = reading.deadline.min(end);
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                state = self.shared.wait(state, left);
            }
            // After an abandoned reading there may be time for another one.
            if state.schedule.is_completed(reading) {
                return (state, true);
            }
        }
    }

    /// Starts a reader thread if there is no leader.
    fn start_missing_reader(&self, state: &mut State) {
        let Some(id) = state.schedule.appoint() else {
            return;
        };
        if let Err(error) = self.start_reader(id) {
            log::warn!("could not start a thread to read the database: {error}");
            state.schedule.exited(id);
        }
    }

    fn start_reader(&self, id: ReaderId) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let database_url = Arc::clone(&self.database_url);
        std::thread::Builder::new()
            .name("reader".to_owned())
            .spawn(move || reader::run(&shared, &database_url, id))
            .map(drop)
    }
}
