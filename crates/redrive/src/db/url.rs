//! Connection options: a database URL and its TLS settings.
//!
//! The driver's default `sslmode=prefer` encrypts only if the server agrees, so an attacker in
//! between can turn encryption off. redrive therefore interprets `sslmode` as documented below.

mod tls_options;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Instant;

use postgres::config::{Host, SslMode};
use postgres::{Client, Config, NoTls};

use crate::db::connection::OwnConnection;
use crate::db::deadline::{self, can_have_deadlines};
use crate::db::tls::{self, TlsConnector, Verification};
use crate::error::{Error, Result};

/// Where a PostgreSQL server is and how to connect to it: a URL, or keywords such as `host=db
/// user=me`.
///
/// Remote connections use TLS and verify the server's certificate and name by default; connections
/// to this machine (Unix sockets, `localhost`, loopback addresses) do not use TLS. redrive
/// interprets these options:
///
/// - `sslmode`: `verify-full` verifies certificate and name, `verify-ca` only the certificate, and
///   `disable` does not encrypt. `require` means `verify-full`. `allow` and `prefer` do not encrypt
///   and are accepted only for this machine.
/// - `sslrootcert`: a PEM file with trusted certificates. Defaults to `system`, those of the
///   operating system.
/// - `sslcert` and `sslkey`: PEM files with a client certificate and its key.
///
/// The driver handles its own options; see [`postgres::Config`]. Any other option is an error that names it.
///
/// ```
/// use redrive::ConnectOptions;
///
/// # fn main() -> redrive::Result<()> {
/// let here: ConnectOptions = "host=/run/postgresql dbname=shop".parse()?;
/// assert_eq!(here.config().get_dbname(), Some("shop"));
/// let elsewhere = "postgres://me@db.example.com/shop?sslmode=prefer";
/// assert!(elsewhere.parse::<ConnectOptions>().is_err());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct ConnectOptions {
    config: Config,
    /// `None`: no encryption.
    tls: Option<TlsConnector>,
}

impl ConnectOptions {
    /// Opens a single connection outside of any pool.
    ///
    /// Like the driver, this waits forever for a silent server.
    ///
    /// # Errors
    /// *Unavailable* if the server cannot be reached; otherwise the error of the server or of the
    /// certificate check.
    pub fn connect(&self) -> Result<Client> {
        // Not over the stream with a deadline: a token to cancel its queries would connect as that does.
        let connected = match self.tls.clone() {
            Some(tls) => self.config.connect(tls),
            None => self.config.connect(NoTls),
        };
        connected.map_err(not_connected)
    }

    /// Opens a connection whose calls have a deadline, if the driver allows it. The attempt has this one.
    pub(crate) fn connect_until(&self, until: Instant) -> Result<OwnConnection> {
        if !can_have_deadlines(&self.config) {
            return Ok(OwnConnection::new(self.connect()?, None));
        }
        let connected = deadline::connect(&self.config, self.tls.clone(), until);
        let (client, deadline) = connected.map_err(not_connected)?;
        Ok(OwnConnection::new(client, Some(deadline)))
    }

    /// Returns the driver's configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn config_mut(&mut self) -> &mut Config {
        &mut self.config
    }
}

impl FromStr for ConnectOptions {
    type Err = Error;

    fn from_str(address: &str) -> Result<ConnectOptions> {
        let (rest, words) = tls_options::take(address.trim())?;
        let mut config = Config::from_str(&rest).map_err(|error| unreadable(&error))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(Error::invalid("the database URL has no host"));
        }
        if config.get_hosts().is_empty() {
            // As libpq does. The driver checks a certificate against the name.
            for address in config.get_hostaddrs().to_vec() {
                config.host(&address.to_string());
            }
        }
        let trust = decide(words.get("sslmode"), &config)?;
        config.ssl_mode(match trust {
            None => SslMode::Disable,
            Some(_) => SslMode::Require,
        });
        let tls = trust.map(|trust| tls::connector(trust, &words));
        Ok(ConnectOptions {
            config,
            tls: tls.transpose()?,
        })
    }
}

impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The driver omits the password.
        f.debug_struct("ConnectOptions")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Says what to do about a server that cannot be trusted.
fn not_connected(error: postgres::Error) -> Error {
    let error = Error::from_setup("connect to the database", error);
    match tls::advice(&error.cause()) {
        Some(advice) => error.with_advice(advice),
        None => error,
    }
}

/// Decides what to verify. `None`: no TLS.
fn decide(mode: Option<&String>, config: &Config) -> Result<Option<Verification>> {
    let is_here = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        }
    };
    let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
    let all_sockets = hosts.iter().all(|host| matches!(host, Host::Unix(_)));
    // `hostaddr` determines the destination, not the host name.
    let (are_sockets, are_here) = match addresses {
        [] => (all_sockets, hosts.iter().all(is_here)),
        addresses => (false, addresses.iter().all(IpAddr::is_loopback)),
    };
    match mode.map(String::as_str) {
        Some("disable") => Ok(None),
        // A Unix socket never uses TLS.
        Some("require" | "verify-full" | "verify-ca") if are_sockets => Ok(None),
        None | Some("allow" | "prefer") if are_here => Ok(None),
        Some(mode @ ("allow" | "prefer")) => Err(Error::invalid(format!(
            "sslmode={mode} does not protect a remote connection; set sslmode=verify-full, or \
             sslmode=disable if you trust the network"
        ))),
        Some("verify-ca") => Ok(Some(Verification::Certificate)),
        None | Some("require" | "verify-full") => Ok(Some(Verification::CertificateAndName)),
        // Not repeated: it might be a misplaced password.
        Some(_) => Err(Error::invalid(
            "unknown sslmode; expected disable, verify-ca, verify-full, require, allow or prefer",
        )),
    }
}

/// Describes a bad URL without repeating any of it, because it may contain a password.
fn unreadable(error: &postgres::Error) -> Error {
    let refused = Error::invalid("the database URL cannot be read");
    let Some(cause) = std::error::Error::source(error).map(ToString::to_string) else {
        return refused;
    };
    let is_part = |byte: u8| byte == b'_' || byte.is_ascii_lowercase();
    let unknown = cause.strip_prefix("unknown option `");
    match unknown.map(|name| name.trim_end_matches('`')) {
        Some(name) if name.bytes().all(is_part) => Error::invalid(format!(
            "the database URL has the option `{name}`, which redrive does not support"
        )),
        // This text names an option of the driver but not its value.
        None if cause.starts_with("invalid value for option") => refused.caused_by(cause),
        Some(_) | None => refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(address: &str) -> Result<Option<Verification>> {
        let (rest, words) = tls_options::take(address)?;
        let config = Config::from_str(&rest).expect("an address");
        decide(words.get("sslmode"), &config)
    }

    #[test]
    fn a_remote_host_is_never_contacted_without_tls_unless_configured() {
        type Decided = Result<Option<Verification>, ()>;
        const REFUSED: Decided = Err(());
        const PLAIN: Decided = Ok(None);
        const CHAIN: Decided = Ok(Some(Verification::Certificate));
        const NAME: Decided = Ok(Some(Verification::CertificateAndName));
        for (address, expected) in [
            ("host=/run/postgresql", PLAIN),
            ("host=/run/postgresql sslmode=prefer", PLAIN),
            ("postgres://%2Frun%2Fpostgresql/db?sslmode=require", PLAIN),
            ("postgres://localhost/db", PLAIN),
            ("postgres://127.0.0.1,[::1]/db?sslmode=allow", PLAIN),
            ("host=/run/postgresql,localhost", PLAIN),
            ("host=db hostaddr=127.0.0.1", PLAIN),
            ("host=localhost sslmode=disable", PLAIN),
            ("host=localhost sslmode=require", NAME),
            ("host=localhost sslmode=verify-full", NAME),
            ("host=localhost sslmode=verify-ca", CHAIN),
            ("host=localhost sslmode=''", REFUSED),
            ("postgres://localhost,db.example.com/db", NAME),
            ("postgres://10.0.0.7/db", NAME),
            ("postgres://localhost.example.com/db", NAME),
            ("host=localhost hostaddr=10.0.0.7", NAME),
            ("host=db sslmode=require", NAME),
            ("host=db sslmode=verify-full", NAME),
            ("host=db sslmode=verify-ca", CHAIN),
            ("host=db sslmode=disable", PLAIN),
            ("host=db sslmode=allow", REFUSED),
            ("host=db sslmode=prefer", REFUSED),
            ("host=db sslmode=verify_full", REFUSED),
        ] {
            assert_eq!(decided(address).map_err(drop), expected, "{address}");
        }
    }

    #[test]
    fn an_unusable_address_says_why_without_its_password() {
        for (bad, why) in [
            ("host", "cannot be read"),
            ("dbname=s3cret", "has no host"),
            ("postgres://me:s3cret@host:no-port/db", "cannot be read"),
            ("host=db password=\\", "cannot be read"),
            ("host=db sslmode='verify-full", "cannot be read"),
            ("postgres://host/db?sslmode=%ff", "not UTF-8"),
            (
                "postgres://me@10.0.0.7/db?sslmode=s3cret",
                "unknown sslmode",
            ),
            (
                "postgres://me:s3cret@10.0.0.7/db?sslmode=prefer",
                "does not protect",
            ),
            // An unknown option or character.
            ("postgres://host/db?passfile=/x", "`passfile`"),
            ("host=db requirepeer=postgres", "`requirepeer`"),
            ("postgres://me:s3@cret@host/db", "%40"),
            ("postgres://me:a@s3cret:1@host/db?sslmode=disable", "%40"),
            ("postgres://host/db?application_name=s3@cret", "%40"),
            ("postgres://me:s3?cret@host/db", "%3F"),
            ("postgres://me@host/db?S3cret=2", "cannot be read"),
        ] {
            let error = bad.parse::<ConnectOptions>().expect_err(bad);
            error.assert_invalid(why);
            let whole = format!("{error:?}").to_lowercase();
            assert!(!whole.contains("s3"), "{whole}");
        }
    }
}
