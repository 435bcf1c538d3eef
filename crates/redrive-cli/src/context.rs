//! The context of a command: its output, its global options and its connection to the database.

use std::fmt::Display;
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use redrive::limits::WORKER_CONNECTIONS;
use redrive::{Database, DatabaseBuilder, Queue};
use serde::Serialize;
use serde_json::json;

use crate::error::{Error, Result};
use crate::global::GlobalArgs;
use crate::optional::Optional as _;
use crate::program::Program;
use crate::terminal::{Table, clean, json_line};
use crate::time::Clock;

/// The pause between two attempts to connect.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// The interval between two messages about a database that cannot be reached.
const REPORT_EVERY: Duration = Duration::from_secs(5);
/// How long a command other than `work` waits for the database.
const MAX_WAIT: Duration = Duration::from_mins(1);

/// How a command ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Exit code 0.
    Done,
    /// Nothing matched, a check failed, or part of the work could not be done: exit code 1.
    NothingMatched,
}

impl Ending {
    /// The ending of a check that passed, or of work of which all was done; otherwise `NothingMatched`.
    pub(crate) fn of(is_done: bool) -> Ending {
        match is_done {
            true => Ending::Done,
            false => Ending::NothingMatched,
        }
    }

    /// Is done only if both are.
    #[must_use]
    pub(crate) fn and(self, other: Ending) -> Ending {
        Ending::of(self == Ending::Done && other == Ending::Done)
    }
}

/// The options and the output of a command.
pub(crate) struct Context<'a> {
    /// Results.
    pub(crate) out: &'a mut dyn Write,
    /// Messages.
    pub(crate) err: &'a mut dyn Write,
    pub(crate) global: &'a GlobalArgs,
    pub(crate) program: &'a Program,
    /// The database, once it is open.
    pub(crate) db: Option<Database>,
}

/// What the limit of a list leaves out.
pub(crate) struct More {
    names: &'static str,
    /// The option that shows it, if there is one.
    option: Option<String>,
}

impl More {
    /// Cuts items to a limit, which may be `most` at the most.
    pub(crate) fn than<T>(
        limit: impl Into<u64>,
        most: u64,
        names: &'static str,
        items: &mut Vec<T>,
    ) -> More {
        let limit = limit.into();
        let more = limit.saturating_mul(10).min(most);
        let is_cut = cut(items, limit);
        let option = (is_cut && more > limit).then(|| format!("--limit {more}"));
        More { names, option }
    }

    /// Cuts items to a limit. The option leads to those after the last one.
    pub(crate) fn after<T>(
        limit: impl Into<u64>,
        names: &'static str,
        items: &mut Vec<T>,
        option: impl FnOnce(&T) -> String,
    ) -> More {
        let is_cut = cut(items, limit.into());
        let option = items.last().filter(|_| is_cut).map(option);
        More { names, option }
    }
}

/// Cuts items to a limit, and tells whether there are more.
fn cut<T>(items: &mut Vec<T>, limit: u64) -> bool {
    let all = items.len();
    items.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    items.len() < all
}

impl Context<'_> {
    /// Writes a message for the operator to stderr, as an object with --json.
    pub(crate) fn say(&mut self, message: impl AsRef<str>) {
        let message = message.as_ref();
        // A closed stderr must not fail the command.
        _ = match self.global.json {
            true => json_line(self.err, &json!({ "message": message })),
            false => writeln!(self.err, "{}", clean(message)).map_err(Error::from),
        };
    }

    /// Prints a result as a line of JSON, or else as text.
    pub(crate) fn print(&mut self, json: &impl Serialize, text: impl Display) -> Result<Ending> {
        match self.global.json {
            true => json_line(self.out, json)?,
            false => writeln!(self.out, "{text}")?,
        }
        Ok(Ending::Done)
    }

    pub(crate) fn json(&mut self, line: &impl Serialize) -> Result<Ending> {
        json_line(self.out, line)?;
        Ok(Ending::Done)
    }

    /// Prints items as lines of JSON, or else as a table.
    pub(crate) fn items<'i, T, J: Serialize>(
        &mut self,
        items: &'i [T],
        json: impl Fn(&'i T) -> J,
        table: &Table,
    ) -> Result<Ending> {
        match self.global.json {
            true => {
                for item in items {
                    json_line(self.out, &json(item))?;
                }
            }
            false if items.is_empty() => {}
            false => table.write(self.out)?,
        }
        Ok(Ending::Done)
    }

    /// As [`items`](Context::items), or says that there are none.
    pub(crate) fn list<'i, T, J: Serialize>(
        &mut self,
        none: &str,
        items: &'i [T],
        json: impl Fn(&'i T) -> J,
        table: &Table,
    ) -> Result<Ending> {
        match items {
            [] => self.nothing(none),
            items => self.items(items, json, table),
        }
    }

    /// As [`list`](Context::list), and says how to see more.
    pub(crate) fn list_some<'i, T, J: Serialize>(
        &mut self,
        more: &More,
        none: &str,
        items: &'i [T],
        json: impl Fn(&'i T) -> J,
        table: &Table,
    ) -> Result<Ending> {
        let ending = self.list(none, items, json, table)?;
        if let Some(option) = &more.option {
            self.say_more(more.names, option)?;
        }
        Ok(ending)
    }

    /// Says why there is nothing to show or to do.
    pub(crate) fn nothing(&mut self, message: impl AsRef<str>) -> Result<Ending> {
        self.out.flush()?;
        self.say(message);
        Ok(Ending::NothingMatched)
    }

    /// Prints the answer of a command that changes nothing, if it is an object.
    pub(crate) fn no_change(&mut self, action: &str, names: &str, is_dry_run: bool) -> Result<()> {
        match self.global.json {
            true => json_line(
                self.out,
                &json!({ "action": action, "dry_run": is_dry_run, names: 0, "skipped": [] }),
            ),
            false => Ok(()),
        }
    }

    /// Says which words make a dry run act.
    pub(crate) fn propose(&mut self, to_act: &[&str]) -> Result<Ending> {
        let act = match to_act {
            [] => "leave out --dry-run".to_owned(),
            words => format!("add {}", words.join(" ")),
        };
        writeln!(self.out, "Nothing was changed. To act, {act}.")?;
        Ok(Ending::Done)
    }

    /// Prints a command to type next.
    pub(crate) fn print_command(&mut self, command: &str) -> Result<Ending> {
        writeln!(self.out, "  {command}")?;
        Ok(Ending::Done)
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

    /// Returns the database. Opens it first, and waits up to a minute for it unless `--no-wait` is given.
    pub(crate) fn database(&mut self) -> Result<Database> {
        let db = match self.db.take() {
            Some(db) => db,
            None => checked(self.unchecked_database()?)?,
        };
        self.db = Some(db.clone());
        Ok(db)
    }

    /// As [`database`](Context::database), also if something in it makes statements fail or miss rows.
    pub(crate) fn unchecked_database(&mut self) -> Result<Database> {
        self.open(Some(MAX_WAIT), None)
    }

    /// Opens a queue, and waits up to a minute for the database unless `--no-wait` is given.
    pub(crate) fn queue(&mut self, name: &str) -> Result<Queue> {
        Ok(Queue::new(&self.database()?, name)?)
    }

    /// Opens the database for a worker. Waits for it as long as it takes, unless `--no-wait` is given.
    pub(crate) fn database_for_worker(&mut self) -> Result<Database> {
        // As many again, for the calls of the command itself.
        checked(self.open(None, Some(2 * WORKER_CONNECTIONS))?)
    }

    fn open(&mut self, max_wait: Option<Duration>, connections: Option<u32>) -> Result<Database> {
        let global = self.global;
        let url = global.database_url.as_deref();
        let url = url.filter(|url| !url.trim().is_empty()).ok_or_else(|| {
            Error::new("no database given: set DATABASE_URL or use --database-url")
        })?;
        let builder = || {
            Database::builder(url)
                .with(connections, DatabaseBuilder::connections)
                .with(global.pooler, DatabaseBuilder::pooler)
                .with(global.timeout, |builder, timeout| {
                    builder.call_timeout(timeout).bulk_timeout(timeout * 4)
                })
        };
        let max_wait = match global.no_wait {
            true => Some(Duration::ZERO),
            false => max_wait,
        };
        let begin = Instant::now();
        let mut reported: Option<Instant> = None;
        loop {
            let error = match builder().open() {
                Err(error) if error.is_unavailable() => Error::from(error),
                opened => {
                    let db = opened?;
                    Clock::Of(db.clone()).set();
                    return Ok(db);
                }
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
}

fn checked(db: Database) -> Result<Database> {
    db.check_session()?;
    Ok(db)
}
