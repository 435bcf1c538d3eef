//! Connecting: waits for a database that is away, and tells at once what waiting cannot mend.

use std::thread;
use std::time::{Duration, Instant};

use redrive::{Address, Database, Queue};

use crate::Streams;
use crate::args::Arguments;
use crate::error::{Error, Result};

/// How long to wait between attempts.
const PAUSE: Duration = Duration::from_secs(1);
/// How often to say that we wait.
const SAY_EVERY: Duration = Duration::from_secs(5);
/// How long a command that is not a worker waits for the database.
const A_MINUTE: Duration = Duration::from_mins(1);

/// How long to wait for a database that is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// As long as a person would.
    Minute,
    /// As long as it takes.
    Endless,
}

/// Opens the database, once it can be reached.
pub(crate) fn database(
    arguments: &Arguments,
    patience: Patience,
    io: &mut Streams<'_>,
) -> Result<Database> {
    let url = url(arguments)?;
    let limit = match patience {
        _ if arguments.no_wait => Some(Duration::ZERO),
        Patience::Minute => Some(A_MINUTE),
        Patience::Endless => None,
    };
    let begin = Instant::now();
    let mut said: Option<Instant> = None;
    loop {
        let error = match open(url, arguments) {
            Err(error) if error.is_unavailable() => Error::from(error),
            answer => return Ok(answer?),
        };
        if limit.is_some_and(|limit| begin.elapsed() + PAUSE > limit) {
            return Err(error);
        }
        if said.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
            io.say(format!("waiting for the database: {}", error.told()));
            said = Some(Instant::now());
        }
        thread::sleep(PAUSE);
    }
}

/// Opens it, behind the pooler and with the deadlines that were named.
fn open(url: &str, arguments: &Arguments) -> redrive::Result<Database> {
    let mut builder = Database::builder(url).pooler(arguments.pooler);
    if let Some(time) = arguments.answer_within {
        builder = builder.call_timeout(time).bulk_timeout(time * 4);
    }
    builder.open()
}

/// The same for a command on one queue.
pub(crate) fn queue(
    arguments: &Arguments,
    patience: Patience,
    name: &str,
    io: &mut Streams<'_>,
) -> Result<Queue> {
    Ok(Queue::new(&database(arguments, patience, io)?, name)?)
}

/// How long a chunk of a transaction as long as a file may take.
pub(crate) fn patience(arguments: &Arguments) -> Duration {
    arguments.answer_within.map_or(A_MINUTE, |time| time * 4)
}

/// Where the database is, for a connection of our own.
pub(crate) fn address(arguments: &Arguments) -> Result<Address> {
    Ok(url(arguments)?.parse()?)
}

fn url(arguments: &Arguments) -> Result<&str> {
    arguments
        .database_url
        .as_deref()
        .filter(|url| !url.trim().is_empty())
        .ok_or_else(|| Error::new("no database is named: give --database-url or set DATABASE_URL"))
}
