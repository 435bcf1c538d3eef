//! The database that is read, by the URL of the moment.

use std::time::{Duration, Instant};

use anyhow::Result;
use redrive::metrics::{Reader, Reading};
use redrive::{Database, Pooler};

use crate::database_url::DatabaseUrl;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The minimum time for the queries of a reading.
const MIN_READ: Duration = Duration::from_secs(1);
/// The minimum time after which a reading loses its connection, which other scrapes can still use.
const MIN_DEADLINE: Duration = Duration::from_secs(5);
/// The name of the sessions in `pg_stat_activity`.
const APPLICATION_NAME: &str = "redrive_exporter";

/// The database, once it was reached.
pub(crate) struct Source {
    url: DatabaseUrl,
    /// The database, with the URL that opened it.
    opened: Option<(String, Database)>,
    /// Why it cannot be opened, while that lasts.
    trouble: Option<String>,
}

impl Source {
    pub(crate) fn new(url: DatabaseUrl) -> Source {
        Source {
            url,
            opened: None,
            trouble: None,
        }
    }

    /// Reads the metrics for scrapes that leave this time. Reads again if the connection was lost while it was idle.
    pub(crate) fn read(&mut self, reader: &Reader, limit: Duration) -> (Reader, Reading) {
        let (begin, was_open) = (Instant::now(), self.opened.is_some());
        let (reader, reading) = self.read_once(reader, limit);
        let spent = begin.elapsed();
        match was_open && !reading.is_connected && spent < limit / 2 {
            true => self.read_once(&reader, limit.saturating_sub(spent)),
            false => (reader, reading),
        }
    }

    fn read_once(&mut self, reader: &Reader, limit: Duration) -> (Reader, Reading) {
        match self.database() {
            Ok(database) => {
                self.trouble = None;
                // The rest is for the response.
                let budget = limit.max(MIN_READ).mul_f64(0.9);
                let read = reader.read_within(&database, budget, limit.max(MIN_DEADLINE));
                if !read.1.is_connected {
                    // The pool would wait for another connection; opening says at once why there is none.
                    self.opened = None;
                }
                read
            }
            Err(error) => {
                let text = format!("{error:#}");
                match self.trouble.as_ref() == Some(&text) {
                    true => log::debug!("{text}"),
                    false => log::warn!("retrying at the next scrape: {text}"),
                }
                self.trouble = Some(text);
                let mut reader = reader.clone();
                let reading = reader.unreachable();
                (reader, reading)
            }
        }
    }

    /// Returns the database. Opens it if it is not open, or if the URL is new.
    fn database(&mut self) -> Result<Database> {
        let url = self.url.text()?;
        if let Some((opened, database)) = &self.opened
            && *opened == url
        {
            return Ok(database.clone());
        }
        // Closes the connection to the database of the former URL.
        self.opened = None;
        let database = Database::builder(&url)
            .application_name(APPLICATION_NAME)
            // A reading sets what it needs in its transaction, so it needs no session of its own.
            .pooler(Pooler::Transaction)
            .connections(1)
            .connect_timeout(CONNECT_TIMEOUT)
            .open()?;
        log::info!("connected to the database");
        self.opened = Some((url, database.clone()));
        Ok(database)
    }
}
