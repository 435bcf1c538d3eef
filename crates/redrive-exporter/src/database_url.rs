//! The URL of the database.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use redrive::ConnectOptions;
use redrive::postgres::config::Host;

use crate::args::Arguments;

/// The environment variable that may contain the URL.
const VARIABLE: &str = "DATABASE_URL";

/// The URL, or the file that contains it.
pub(crate) enum DatabaseUrl {
    /// The URL.
    Inline(String),
    /// A file with the URL. Read for each reading, because the password may have changed.
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
        database_url.is_socket(&database_url.read()?)?;
        Ok(database_url)
    }

    /// Returns the URL of the moment. The error names the file.
    pub(crate) fn read(&self) -> Result<String> {
        match self {
            DatabaseUrl::Inline(url) => Ok(url.clone()),
            DatabaseUrl::File(file) => {
                fs::read_to_string(file).with_context(|| format!("could not read {}", self.name()))
            }
        }
    }

    /// Returns whether the URL that was read leads to a Unix socket. The error names the file.
    pub(crate) fn is_socket(&self, url: &str) -> Result<bool> {
        let options = parse(url, &self.name())?;
        let mut hosts = options.config().get_hosts().iter();
        Ok(hosts.any(|host| matches!(host, Host::Unix(_))))
    }

    fn name(&self) -> String {
        match self {
            DatabaseUrl::Inline(_) => "the database URL".to_owned(),
            DatabaseUrl::File(file) => format!("the database URL in {}", file.display()),
        }
    }
}

/// Parses a URL. The error does not quote the URL, because it may contain a password.
fn parse(url: &str, name: &str) -> Result<ConnectOptions> {
    url.parse().with_context(|| format!("{name} is invalid"))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn error_for(arguments: &[&str]) -> String {
        let program = ["redrive-exporter"];
        let arguments = program.iter().chain(arguments);
        let arguments = Arguments::try_parse_from(arguments).expect("arguments");
        let Err(error) = DatabaseUrl::from_arguments(&arguments) else {
            panic!("the URL is valid");
        };
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
        // A file without a URL.
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let error = error_for(&["--database-url-file", file]);
        assert!(error.contains(file), "{error}");
    }

    #[test]
    fn a_socket_is_a_path() {
        for (url, expected) in [
            ("postgres:///shop?host=/run/postgresql&user=me\n", true),
            ("host=/run/postgresql user=me", true),
            ("postgres://me@localhost/shop", false),
            ("postgres://me@127.0.0.1/shop", false),
        ] {
            let is_socket = DatabaseUrl::Inline(url.to_owned()).is_socket(url);
            assert_eq!(is_socket.expect(url), expected, "{url}");
        }
    }
}
