//! What scrapes and readers share: the last results, and the connection between two readings.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redrive::metrics::Reader;
use redrive::postgres::Client;

use super::exposition::render;
use super::schedule::Schedule;

/// How long rendered last good values are used. Series that are too old disappear after that.
const RENDERED_FOR: Duration = Duration::from_secs(10);

/// The last results and the schedule of readings.
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
    /// The reader as the last reading left it. A reading works on a copy.
    pub(super) reader: Reader,
    /// The connection for the next reading.
    pub(super) connection: Option<Client>,
    /// The last good values with `redrive_up` 0, and when they were rendered; on first use.
    stale: Option<(Arc<Vec<u8>>, Instant)>,
    /// Whether the log says that the database does not answer.
    is_silence_logged: bool,
    /// The last error of a connection, while it lasts.
    logged: Option<String>,
}

impl State {
    /// Returns the state of an exporter that has read nothing yet.
    pub(super) fn new(version: &str) -> State {
        let mut reader = Reader::new(version);
        State {
            schedule: Schedule::default(),
            waiting: 0,
            exposition: render(reader.unreachable().families),
            answered_at: None,
            is_schema_known: false,
            reader,
            connection: None,
            stale: None,
            is_silence_logged: false,
            logged: None,
        }
    }

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
    pub(super) fn publish(
        &mut self,
        reader: Reader,
        exposition: Arc<Vec<u8>>,
        schema_known: Option<bool>,
    ) {
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

    /// Logs why there is no connection as a warning, and its repetitions at the debug level.
    pub(super) fn log_connection(&mut self, error: Option<String>) {
        match &error {
            Some(text) if self.logged == error => log::debug!("{text}"),
            Some(text) => log::warn!("retrying at the next scrape: {text}"),
            None => {}
        }
        self.logged = error;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_values_are_rendered_again_so_that_expired_series_disappear() {
        let mut state = State::new("1");
        let first = state.stale_exposition();
        let again = state.stale_exposition();
        assert!(Arc::ptr_eq(&first, &again), "rendered once");
        let rendered_at = Instant::now().checked_sub(RENDERED_FOR);
        state.stale = Some((first.clone(), rendered_at.expect("a time after the start")));
        let later = state.stale_exposition();
        assert!(!Arc::ptr_eq(&first, &later));
    }
}
