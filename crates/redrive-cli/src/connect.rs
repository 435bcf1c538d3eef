//! Connecting: waits for a database that is away, and tells at once what waiting cannot mend.

use std::error::Error as _;
use std::str::FromStr as _;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use redrive::postgres::{self, Client, Config, NoTls};
use redrive::{Database, Queue};

use crate::Streams;
use crate::args::Arguments;
use crate::error::{Error, Result, chain};

/// How long one attempt to connect may take.
const ATTEMPT: Duration = Duration::from_secs(10);
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
    drop(reach(&config(url)?, limit, io)?);
    Ok(redrive::connect(url)?)
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

/// A connection of our own, for a transaction that lasts as long as a file.
pub(crate) fn client(arguments: &Arguments) -> Result<Client> {
    attempt(&config(url(arguments)?)?).map_err(|refusal| refusal.error())
}

fn url(arguments: &Arguments) -> Result<&str> {
    arguments
        .database_url
        .as_deref()
        .filter(|url| !url.trim().is_empty())
        .ok_or_else(|| Error::new("no database is named: give --database-url or set DATABASE_URL"))
}

fn config(url: &str) -> Result<Config> {
    let mut config = Config::from_str(url).map_err(|error| unreadable(&error))?;
    if config.get_application_name().is_none() {
        config.application_name("redrive");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(ATTEMPT);
    }
    // A dead network is noticed in seconds, not hours.
    config.tcp_user_timeout(Duration::from_secs(15));
    Ok(config)
}

/// Says what is wrong with a URL without repeating any of it: it may hold a password.
fn unreadable(error: &postgres::Error) -> Error {
    const FORM: &str =
        "the database URL cannot be read; it looks like postgres://user@host:5432/database";
    match error.source().map(ToString::to_string) {
        // Names one of the driver's own options, and nothing of its value.
        Some(cause) if cause.starts_with("invalid value for option") => {
            Error::new(format!("{FORM}: {cause}"))
        }
        _ => Error::new(FORM),
    }
}

/// Tries until the server answers, `limit` has passed, or it says what waiting cannot mend.
fn reach(config: &Config, limit: Option<Duration>, io: &mut Streams<'_>) -> Result<Client> {
    let begin = Instant::now();
    let mut said: Option<Instant> = None;
    loop {
        let refusal = match attempt(config) {
            Ok(client) => return Ok(client),
            Err(refusal) => refusal,
        };
        let over = limit.is_some_and(|limit| begin.elapsed() + PAUSE > limit);
        if over || !refusal.may_pass() {
            return Err(refusal.error());
        }
        if said.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
            io.say(format!("waiting for the database: {}", refusal.told()));
            said = Some(Instant::now());
        }
        thread::sleep(PAUSE);
    }
}

/// Why there is no connection.
#[derive(Debug)]
enum Refusal {
    Driver(postgres::Error),
    Silence,
}

impl Refusal {
    /// Whether the next attempt may succeed without anybody changing the command.
    fn may_pass(&self) -> bool {
        match self {
            Refusal::Silence => true,
            Refusal::Driver(error) => match error.code() {
                // Connection, resources, operator intervention ("the database system is starting up").
                Some(state) => matches!(&state.code()[..2], "08" | "53" | "57"),
                None => !["TLS", "configuration", "authentication"]
                    .iter()
                    .any(|word| error.to_string().contains(word)),
            },
        }
    }

    fn told(&self) -> String {
        match self {
            Refusal::Driver(error) => match error.as_db_error() {
                Some(said) => said.message().to_owned(),
                None => chain(error.to_string(), error.source()),
            },
            Refusal::Silence => format!("no answer within {ATTEMPT:?}"),
        }
    }

    fn error(&self) -> Error {
        Error::new(format!("could not reach the database: {}", self.told()))
    }
}

/// One attempt, on a thread of its own: a server may accept and then say nothing.
fn attempt(config: &Config) -> Result<Client, Refusal> {
    let (reply, answer) = mpsc::channel();
    let config = config.clone();
    thread::spawn(move || {
        // Nobody listens any more when the time was up.
        _ = reply.send(config.connect(NoTls));
    });
    match answer.recv_timeout(ATTEMPT + PAUSE) {
        Ok(answer) => answer.map_err(Refusal::Driver),
        Err(_) => Err(Refusal::Silence),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_url_is_never_repeated() {
        for url in [
            "postgres://me:s3cret@host:port/db",
            "postgress://me:s3cret@host/db?sslmode=require",
            "me:s3cret@host",
            "host=h passwrd=s3cret",
            "postgres://me:s3cret@host/db?sslmod=s3cret",
        ] {
            let told = config(url).expect_err(url).told();
            assert!(
                !told.contains("s3cret") && told.contains("cannot be read"),
                "{url}: {told}"
            );
        }
    }

    #[test]
    fn a_server_that_is_down_may_come_back() {
        let config = config("postgres://me:s3cret@127.0.0.1:1/db").expect("a good URL");
        let refusal = attempt(&config)
            .map(drop)
            .expect_err("nobody listens on port 1");
        assert!(refusal.may_pass());
        assert!(
            refusal.told().contains("refused") && !refusal.told().contains("s3cret"),
            "{}",
            refusal.told()
        );
    }
}
