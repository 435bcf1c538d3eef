//! Where the database URL comes from, and the connection that is made of it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use redrive::Address;
use redrive::postgres::Client;

use crate::args::Arguments;
use crate::error::{Error, Result};

/// The environment variable with the URL.
const VARIABLE: &str = "DATABASE_URL";
/// How long the network may take to connect.
const TO_CONNECT: Duration = Duration::from_secs(5);
/// How long the network may leave unanswered what we sent.
const TO_ACKNOWLEDGE: Duration = Duration::from_secs(10);
/// After how long the network is asked whether the server is still there.
const IDLE: Duration = Duration::from_secs(10);
/// What the driver takes for that when nothing is said.
const DRIVERS_IDLE: Duration = Duration::from_hours(2);
/// The name of our sessions in `pg_stat_activity`.
pub(crate) const APPLICATION: &str = "redrive_exporter";

/// Where the URL is.
#[derive(Clone)]
pub(crate) enum Source {
    /// Here.
    Url(String),
    /// In a file, which is read for each connection: a password may have changed since.
    File(PathBuf),
}

impl Source {
    /// Where the arguments and the environment say. It must be there and make sense: whoever
    /// starts the exporter is told at once.
    pub(crate) fn of(arguments: &Arguments) -> Result<Source> {
        let of_the_environment = || std::env::var(VARIABLE).ok().filter(|url| !url.is_empty());
        let source = match (&arguments.database_url, &arguments.database_url_file) {
            (Some(url), _) => {
                if address(url, "--database-url")?
                    .config()
                    .get_password()
                    .is_some()
                {
                    return Err(Error::new(
                        "--database-url has a password in it, which every user of this machine \
                         can read in the list of processes: put the URL into DATABASE_URL or into \
                         a file and name that with --database-url-file",
                    ));
                }
                Source::Url(url.clone())
            }
            (None, Some(file)) => Source::File(file.clone()),
            (None, None) => Source::Url(of_the_environment().ok_or_else(|| {
                Error::new(
                    "no database is named: set DATABASE_URL, or give --database-url-file or \
                     --database-url",
                )
            })?),
        };
        source.address().map(|_| source)
    }

    /// Opens a connection. It waits for as long as the server says nothing.
    ///
    /// Nothing is set on it, because with a pooler in between it may be others', too: what is asked
    /// brings its own settings along.
    pub(crate) fn connect(&self) -> Result<Client> {
        self.address()?
            .connect()
            .map_err(|error| Error::caused_by("could not connect to the database", error))
    }

    fn address(&self) -> Result<Address> {
        match self {
            Source::Url(url) => address(url, "the database URL"),
            Source::File(file) => {
                let name = file.display();
                let text = std::fs::read_to_string(file).map_err(|error| {
                    Error::caused_by(format!("could not read the database URL in {name}"), error)
                })?;
                address(&text, &format!("the database URL in {name}"))
            }
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // It may hold a password.
            Source::Url(_) => f.write_str("Url"),
            Source::File(file) => f.debug_tuple("File").field(file).finish(),
        }
    }
}

/// Reads a URL. What is wrong with it is said without repeating any of it: it may hold a password.
fn address(url: &str, what: &str) -> Result<Address> {
    let mut address: Address = url
        .parse()
        .map_err(|error| Error::caused_by(format!("{what} cannot be used"), error))?;
    let config = address.config_mut();
    if config.get_application_name().is_none() {
        config.application_name(APPLICATION);
    }
    // Unless the URL says otherwise: notice a network that is gone within seconds.
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(TO_CONNECT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(TO_ACKNOWLEDGE);
    }
    if config.get_keepalives_idle() == DRIVERS_IDLE {
        config
            .keepalives_idle(IDLE)
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3);
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn told(arguments: &[&str]) -> String {
        let program = ["redrive-exporter"];
        let arguments = program.iter().chain(arguments);
        let arguments = Arguments::try_parse_from(arguments).expect("arguments");
        Source::of(&arguments).expect_err("refused").told()
    }

    #[test]
    fn a_url_that_cannot_be_used_is_told_at_once_and_without_its_password() {
        let said = told(&["--database-url", "postgres://me:s3cret@host:no-port/db"]);
        assert!(
            said.contains("--database-url") && !said.contains("s3cret"),
            "{said}"
        );
        let said = told(&["--database-url", "postgres://me:s3cret@host/db"]);
        assert!(
            said.contains("--database-url-file") && !said.contains("s3cret"),
            "{said}"
        );
        let said = told(&["--database-url", "postgres://me@host/db?sslmode=prefer"]);
        assert!(said.contains("verify-full"), "{said}");
        let said = told(&["--database-url", "dbname=shop"]);
        assert!(said.contains("no host"), "{said}");
        let said = told(&["--database-url-file", "no/such/file"]);
        assert!(said.contains("no/such/file"), "{said}");
        let source = Source::Url("postgres://me:s3cret@host/db".to_owned());
        assert!(!format!("{source:?}").contains("s3cret"));
    }

    #[test]
    fn what_the_url_says_goes_first() {
        let url =
            "postgres://localhost/db?application_name=mine&connect_timeout=1&keepalives_idle=7";
        let theirs = address(url, "it").expect("a URL");
        let theirs = theirs.config();
        assert_eq!(theirs.get_application_name(), Some("mine"));
        assert_eq!(theirs.get_connect_timeout(), Some(&Duration::from_secs(1)));
        assert_eq!(theirs.get_keepalives_idle(), Duration::from_secs(7));
        let ours = address("  postgres://localhost/db\n", "it").expect("a line of a file");
        let ours = ours.config();
        assert_eq!(ours.get_application_name(), Some(APPLICATION));
        assert_eq!(ours.get_connect_timeout(), Some(&TO_CONNECT));
        assert_eq!(ours.get_tcp_user_timeout(), Some(&TO_ACKNOWLEDGE));
        assert_eq!(ours.get_keepalives_idle(), IDLE);
    }
}
