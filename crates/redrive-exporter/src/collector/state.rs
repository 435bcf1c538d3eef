//! The state that scrapes and reader threads share.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redrive::metrics::{Reader, Reading};

use super::exposition::render;
use super::shared_reading::{ReaderId, ReaderTask, Schedule, SharedReading};

/// How long rendered last good values are used. Series that are too old disappear after that.
const RENDERED_FOR: Duration = Duration::from_secs(10);

/// The state, its lock and its condition variable.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// A reading was requested, completed or abandoned, or a reader thread has ended.
    changed: Condvar,
}

/// The latest results and the schedule of readings.
#[derive(Debug)]
pub(super) struct State {
    pub(super) schedule: Schedule,
    /// The number of scrapes that wait for a reading.
    pub(super) waiting: usize,
    /// The exposition of the last reading. Scrapes share it.
    pub(super) exposition: Arc<Vec<u8>>,
    /// When the database last answered.
    pub(super) answered_at: Option<Instant>,
    /// Whether the schema was known then.
    pub(super) is_schema_known: bool,
    /// The reader as the last reading left it. A reader thread works on a copy.
    reader: Reader,
    /// The last good values with `redrive_up` 0, and when they were rendered; on first use.
    stale: Option<(Arc<Vec<u8>>, Instant)>,
    /// Whether the log says that the database does not answer.
    is_silence_logged: bool,
}

/// The next step of a reader thread.
#[derive(Debug)]
pub(super) enum Next {
    /// Read the database with this reader.
    Read(SharedReading, Box<Reader>),
    /// Nothing was requested within the timeout.
    TimedOut,
    /// Close the connection and end.
    Exit,
}

impl State {
    /// Returns the last good values with `redrive_up` 0.
    pub(super) fn stale_exposition(&mut self) -> Arc<Vec<u8>> {
        if let Some((exposition, rendered_at)) = &self.stale
            && rendered_at.elapsed() < RENDERED_FOR
        {
            return exposition.clone();
        }
        let exposition = render(self.reader.unreachable().families);
        self.stale = Some((exposition.clone(), Instant::now()));
        exposition
    }

    /// Publishes the last good values after a reading was abandoned.
    pub(super) fn publish_stale(&mut self) {
        self.exposition = self.stale_exposition();
        if !self.is_silence_logged {
            log::warn!("the database did not answer in time; publishing the last good values");
            self.is_silence_logged = true;
        }
    }

    /// Publishes a completed reading. `schema_known` is `None` if the database was unreachable.
    fn publish(&mut self, reader: Reader, exposition: Arc<Vec<u8>>, schema_known: Option<bool>) {
        self.reader = reader;
        self.exposition = exposition;
        self.stale = None;
        if let Some(is_known) = schema_known {
            self.answered_at = Some(Instant::now());
            self.is_schema_known = is_known;
            if self.is_silence_logged {
                log::info!("the database answers again");
            }
            self.is_silence_logged = false;
        }
    }
}

impl Shared {
    /// Creates the state of an exporter that has read nothing yet.
    pub(super) fn new(version: &str) -> Shared {
        let mut reader = Reader::new(version);
        let exposition = render(reader.unreachable().families);
        let state = State {
            schedule: Schedule::default(),
            waiting: 0,
            exposition,
            answered_at: None,
            is_schema_known: false,
            reader,
            stale: None,
            is_silence_logged: false,
        };
        Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// Locks the state.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // Every change is a single step, so the state is consistent after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes everything that waits for a change.
    pub(super) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Waits for a change, at most this long.
    pub(super) fn wait<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        timeout: Duration,
    ) -> MutexGuard<'a, State> {
        self.changed
            .wait_timeout(state, timeout)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }

    /// Waits for the next task of a reader thread; without a timeout if it is `None`.
    pub(super) fn next(&self, id: ReaderId, timeout: Option<Duration>) -> Next {
        let end = timeout.map(|timeout| Instant::now() + timeout);
        let mut state = self.state();
        loop {
            match state.schedule.task(id) {
                ReaderTask::Read(reading) => {
                    return Next::Read(reading, Box::new(state.reader.clone()));
                }
                ReaderTask::Exit => return Next::Exit,
                ReaderTask::Wait => {}
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            state = match left {
                Some(Duration::ZERO) => return Next::TimedOut,
                Some(left) => self.wait(state, left),
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Delivers the result of a reading. Drops it if the reading was abandoned.
    pub(super) fn deliver(
        &self,
        id: ReaderId,
        reading: SharedReading,
        reader: Reader,
        result: Reading,
    ) {
        let schema_known = result.is_connected.then(|| result.is_ready());
        // Rendered before the lock is taken, because it takes a while.
        let exposition = render(result.families);
        let mut state = self.state();
        if state.schedule.complete(id, reading) {
            state.publish(reader, exposition, schema_known);
        } else {
            log::debug!("dropped a reading that completed after its deadline");
        }
        drop(state);
        self.notify();
    }

    /// Records that a reader thread has ended and its connection is closed.
    pub(super) fn exited(&self, id: ReaderId) {
        self.state().schedule.exited(id);
        self.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_values_are_rendered_again_so_that_expired_series_disappear() {
        let shared = Shared::new("1");
        let mut state = shared.state();
        let first = state.stale_exposition();
        let again = state.stale_exposition();
        assert!(Arc::ptr_eq(&first, &again), "rendered once");
        let rendered_at = Instant::now().checked_sub(RENDERED_FOR);
        state.stale = Some((first.clone(), rendered_at.expect("a time after the start")));
        let later = state.stale_exposition();
        assert!(!Arc::ptr_eq(&first, &later));
    }
}
