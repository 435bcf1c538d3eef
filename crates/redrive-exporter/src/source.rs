//! The database that is read, by the URL of the moment.

use std::time::{Duration, Instant};

use anyhow::Result;
use redrive::metrics::{Reader, Reading};
use redrive::{Database, Pooler};

use crate::database_url::DatabaseUrl;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The connection of a reading, and one whose silent server keeps it.
const CONNECTIONS: u32 = 2;
/// The minimum time for the queries of a reading.
const MIN_READ: Duration = Duration::from_secs(1);
/// The minimum time after which a reading loses its connection, which other scrapes can still use.
const MIN_DEADLINE: Duration = Duration::from_secs(5);
/// The name of the sessions in `pg_stat_activity`.
const APPLICATION_NAME: &str = "redrive_exporter";

/// The database, once it was reached.
pub(crate) struct Source {
    url: DatabaseUrl,
    opened: Option<Opened>,
    /// Why it cannot be opened, while that lasts.
    trouble: Option<String>,
}

struct Opened {
    database: Database,
    /// The URL that opened it.
    url: String,
    /// The URL leads to a Unix socket.
    is_socket: bool,
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
        let begin = Instant::now();
        match self.database() {
            Ok(database) => {
                self.trouble = None;
                // Opening it took some of the time.
                let (budget, deadline) = limits(limit.saturating_sub(begin.elapsed()));
                let asked = Instant::now();
                let read = reader.read_within(&database, budget, deadline);
                // Nothing ends a silent connection over a Unix socket, so its pool has to count it.
                let is_socket = self.opened.as_ref().is_some_and(|opened| opened.is_socket);
                let is_kept = is_socket && asked.elapsed() >= MIN_READ;
                if !read.1.is_connected && !is_kept {
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
        let url = self.url.read();
        if let (Ok(url), Some(opened)) = (&url, &self.opened)
            && *url == opened.url
        {
            return Ok(opened.database.clone());
        }
        let checked = url.and_then(|url| Ok((self.url.is_socket(&url)?, url)));
        let (is_socket, url) = match (checked, &self.opened) {
            // An open connection outlasts the file, which may be about to be replaced.
            (Err(error), Some(opened)) => {
                log::debug!("{error:#}");
                return Ok(opened.database.clone());
            }
            (checked, _) => checked?,
        };
        // Closes the connection to the database of the former URL.
        self.opened = None;
        let database = Database::builder(&url)
            .application_name(APPLICATION_NAME)
            // A reading sets what it needs in its transaction, so it needs no session of its own.
            .pooler(Pooler::Transaction)
            .connections(CONNECTIONS)
            .connect_timeout(CONNECT_TIMEOUT)
            .open()?;
        log::info!("connected to the database");
        self.opened = Some(Opened {
            database: database.clone(),
            url,
            is_socket,
        });
        Ok(database)
    }
}

/// Returns the time for the queries of a reading and for its whole call, of the time that scrapes leave.
fn limits(left: Duration) -> (Duration, Duration) {
    // The rest is for the response.
    let budget = left.max(MIN_READ).mul_f64(0.9);
    (budget, left.max(MIN_DEADLINE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_with_a_short_timeout_does_not_end_the_connection() {
        for (left, budget, deadline) in [
            (0, 900, 5000),
            (100, 900, 5000),
            (4000, 3600, 5000),
            (30_000, 27_000, 30_000),
        ] {
            let (read, call) = limits(Duration::from_millis(left));
            let limits = (read.as_millis(), call.as_millis());
            assert_eq!(limits, (budget, deadline), "{left}");
        }
    }
}
