//! The context of a command: its output, its global options and its connection to the database.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use redrive::{ConnectOptions, Database, Queue};
use serde_json::json;

use crate::error::{Error, Result};
use crate::global::GlobalArgs;
use crate::registry::Registry;
use crate::terminal::{self, clean, json_line};

/// The pause between two attempts to connect.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// The interval between two messages about a database that cannot be reached.
const REPORT_EVERY: Duration = Duration::from_secs(5);
/// How long a command other than `work` waits for the database.
const MAX_WAIT: Duration = Duration::from_mins(1);
/// How long one chunk of a bulk load may take by default.
const DEFAULT_BULK_TIMEOUT: Duration = Duration::from_mins(1);

/// How a command ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Exit code 0.
    Done,
    /// Nothing matched, a check failed, or part of the work could not be done: exit code 1.
    NothingMatched,
}

/// The options and the output of a command.
pub(crate) struct Context<'a> {
    /// Results.
    pub(crate) out: &'a mut dyn Write,
    /// Messages.
    pub(crate) err: &'a mut dyn Write,
    pub(crate) global: &'a GlobalArgs,
    pub(crate) registry: &'a Registry,
}

impl Context<'_> {
    /// Writes a message for the operator to stderr, as an object with --json.
    pub(crate) fn say(&mut self, message: impl AsRef<str>) {
        let message = message.as_ref();
        // A closed stderr must not fail the command.
        _ = match self.global.json {
            true => json_line(self.err, &json!({ "message": message })),
            false => {
                let text = clean(message);
                writeln!(self.err, "{}", terminal::message(&text)).map_err(Error::from)
            }
        };
    }

    /// Says that there are more items than were printed, and which option prints them.
    pub(crate) fn say_more(&mut self, items: &str, option: &str) -> Result<()> {
        self.out.flush()?;
        match self.global.json {
            true => json_line(self.err, &json!({ "more": option })),
            false => {
                self.say(format!("for more {items}, add {option}"));
                Ok(())
            }
        }
    }

    /// Opens the database, and waits up to a minute for it unless `--no-wait` is given.
    pub(crate) fn database(&mut self) -> Result<Database> {
        checked(self.unchecked_database()?)
    }

    /// As [`database`](Context::database), also if something in it makes statements fail or miss rows.
    pub(crate) fn unchecked_database(&mut self) -> Result<Database> {
        self.open(Some(MAX_WAIT))
    }

    /// Opens a queue, and waits up to a minute for the database unless `--no-wait` is given.
    pub(crate) fn queue(&mut self, name: &str) -> Result<Queue> {
        Ok(Queue::new(&self.database()?, name)?)
    }

    /// Opens a queue. Waits for the database as long as it takes, unless `--no-wait` is given.
    pub(crate) fn queue_without_time_limit(&mut self, name: &str) -> Result<Queue> {
        Ok(Queue::new(&checked(self.open(None)?)?, name)?)
    }

    /// How long one chunk of a bulk load may take.
    pub(crate) fn bulk_timeout(&self) -> Duration {
        self.global
            .timeout
            .map_or(DEFAULT_BULK_TIMEOUT, |timeout| timeout * 4)
    }

    /// The address of the database, for a connection outside of the pool.
    pub(crate) fn connect_options(&self) -> Result<ConnectOptions> {
        Ok(self.url()?.parse()?)
    }

    fn open(&mut self, max_wait: Option<Duration>) -> Result<Database> {
        let url = self.url()?.to_owned();
        let max_wait = match self.global.no_wait {
            true => Some(Duration::ZERO),
            false => max_wait,
        };
        let begin = Instant::now();
        let mut reported: Option<Instant> = None;
        loop {
            let error = match self.try_open(&url) {
                Err(error) if error.is_unavailable() => Error::from(error),
                opened => return Ok(opened?),
            };
            if max_wait.is_some_and(|max_wait| begin.elapsed() + RETRY_EVERY > max_wait) {
                return Err(error);
            }
            if reported.is_none_or(|at| at.elapsed() >= REPORT_EVERY) {
                self.say(format!("waiting for the database: {}", error.one_line()));
                reported = Some(Instant::now());
            }
            thread::sleep(RETRY_EVERY);
        }
    }

    fn try_open(&self, url: &str) -> redrive::Result<Database> {
        let mut builder = Database::builder(url);
        if let Some(pooler) = self.global.pooler {
            builder = builder.pooler(pooler);
        }
        if let Some(timeout) = self.global.timeout {
            builder = builder.call_timeout(timeout).bulk_timeout(timeout * 4);
        }
        builder.open()
    }

    fn url(&self) -> Result<&str> {
        self.global
            .database_url
            .as_deref()
            .filter(|url| !url.trim().is_empty())
            .ok_or_else(|| Error::new("no database given: set DATABASE_URL or use --database-url"))
    }
}

fn checked(db: Database) -> Result<Database> {
    db.check_session()?;
    Ok(db)
}
