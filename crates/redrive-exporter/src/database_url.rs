//! The URL of the database, and how to connect to it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use redrive::ConnectOptions;
use redrive::postgres::Client;

use crate::args::Arguments;

/// The environment variable that may contain the URL.
const VARIABLE: &str = "DATABASE_URL";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long sent data may stay unacknowledged.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(10);
/// The idle time after which TCP keepalives start.
const KEEPALIVES_IDLE: Duration = Duration::from_secs(10);
/// The driver's default for it, which means that the URL does not set it.
const DRIVER_KEEPALIVES_IDLE: Duration = Duration::from_hours(2);
/// The name of the sessions in `pg_stat_activity`.
const APPLICATION_NAME: &str = "redrive_exporter";

/// The URL, or the file that contains it.
#[derive(Clone)]
pub(crate) enum DatabaseUrl {
    /// The URL.
    Inline(String),
    /// A file with the URL. Read for each connection, because the password may have changed.
    File(PathBuf),
}

impl DatabaseUrl {
    /// Takes the URL from the arguments or the environment, and checks it.
    pub(crate) fn from_arguments(arguments: &Arguments) -> Result<DatabaseUrl> {
        let from_environment = || std::env::var(VARIABLE).ok().filter(|url| !url.is_empty());
        let database_url = match (&arguments.database_url, &arguments.database_url_file) {
            (Some(url), _) => {
                if parse(url, "--database-url")?
                    .config()
                    .get_password()
                    .is_some()
                {
                    bail!(
                        "--database-url contains a password, which every user of this machine can \
                         read in the process list; set DATABASE_URL or use --database-url-file \
                         instead"
                    );
                }
                DatabaseUrl::Inline(url.clone())
            }
            (None, Some(file)) => DatabaseUrl::File(file.clone()),
            (None, None) => DatabaseUrl::Inline(from_environment().context(
                "no database URL; set DATABASE_URL, or use --database-url-file or --database-url",
            )?),
        };
        database_url.options().map(|_| database_url)
    }

    /// Opens a connection. Blocks for as long as the server is silent.
    ///
    /// It sets nothing on the session, because a pooler may share the session with other clients.
    /// Each reading sets what it needs in its transaction.
    pub(crate) fn connect(&self) -> Result<Client> {
        Ok(self.options()?.connect()?)
    }

    fn options(&self) -> Result<ConnectOptions> {
        match self {
            DatabaseUrl::Inline(url) => parse(url, "the database URL"),
            DatabaseUrl::File(file) => {
                let name = file.display();
                let text = std::fs::read_to_string(file)
                    .with_context(|| format!("could not read the database URL in {name}"))?;
                parse(&text, &format!("the database URL in {name}"))
            }
        }
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The URL may contain a password.
            DatabaseUrl::Inline(_) => f.write_str("Inline"),
            DatabaseUrl::File(file) => f.debug_tuple("File").field(file).finish(),
        }
    }
}

/// Parses a URL. The error does not quote the URL, because it may contain a password.
fn parse(url: &str, name: &str) -> Result<ConnectOptions> {
    let mut options = url
        .parse::<ConnectOptions>()
        .with_context(|| format!("{name} is invalid"))?;
    let config = options.config_mut();
    if config.get_application_name().is_none() {
        config.application_name(APPLICATION_NAME);
    }
    // Defaults that detect a lost network within seconds; the URL takes precedence.
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(TCP_USER_TIMEOUT);
    }
    if config.get_keepalives_idle() == DRIVER_KEEPALIVES_IDLE {
        config
            .keepalives_idle(KEEPALIVES_IDLE)
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3);
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn error_for(arguments: &[&str]) -> String {
        let program = ["redrive-exporter"];
        let arguments = program.iter().chain(arguments);
        let arguments = Arguments::try_parse_from(arguments).expect("arguments");
        let error = DatabaseUrl::from_arguments(&arguments).expect_err("an invalid URL");
        format!("{error:#}")
    }

    #[test]
    fn an_invalid_url_is_rejected_without_quoting_its_password() {
        let error = error_for(&["--database-url", "postgres://me:s3cret@host:no-port/db"]);
        assert!(
            error.contains("--database-url") && !error.contains("s3cret"),
            "{error}"
        );
        let error = error_for(&["--database-url", "postgres://me:s3cret@host/db"]);
        assert!(
            error.contains("--database-url-file") && !error.contains("s3cret"),
            "{error}"
        );
        let error = error_for(&["--database-url", "postgres://me@host/db?sslmode=prefer"]);
        assert!(error.contains("verify-full"), "{error}");
        let error = error_for(&["--database-url", "dbname=shop"]);
        assert!(error.contains("no host"), "{error}");
        let error = error_for(&["--database-url-file", "no/such/file"]);
        assert!(error.contains("no/such/file"), "{error}");
        let database_url = DatabaseUrl::Inline("postgres://me:s3cret@host/db".to_owned());
        assert!(!format!("{database_url:?}").contains("s3cret"));
    }

    #[test]
    fn settings_of_the_url_take_precedence() {
        let url =
            "postgres://localhost/db?application_name=mine&connect_timeout=1&keepalives_idle=7";
        let given = parse(url, "it").expect("a URL");
        let given = given.config();
        assert_eq!(given.get_application_name(), Some("mine"));
        assert_eq!(given.get_connect_timeout(), Some(&Duration::from_secs(1)));
        assert_eq!(given.get_keepalives_idle(), Duration::from_secs(7));
        let defaults = parse("  postgres://localhost/db\n", "it").expect("a line of a file");
        let defaults = defaults.config();
        assert_eq!(defaults.get_application_name(), Some(APPLICATION_NAME));
        assert_eq!(defaults.get_connect_timeout(), Some(&CONNECT_TIMEOUT));
        assert_eq!(defaults.get_tcp_user_timeout(), Some(&TCP_USER_TIMEOUT));
        assert_eq!(defaults.get_keepalives_idle(), KEEPALIVES_IDLE);
    }
}
