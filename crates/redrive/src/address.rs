//! The address of a server: a URL, and what it says about encryption.
//!
//! The driver knows `disable`, `prefer` and `require`, and takes `prefer` when nothing is said:
//! encrypted if the server says so, and so does whoever stands in between. So `sslmode` is read
//! here, and means what it says.

mod words;

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use postgres::config::{Host, SslMode};
use postgres::{Client, Config};

use crate::address::words::Words;
use crate::error::{Error, Result};
use crate::tls::{self, Connector, Identity, Roots, Trust};

/// Where a PostgreSQL server is, and how to talk to it: a URL, or words such as `host=db user=me`.
///
/// What redrive reads of it by itself is about encryption:
///
/// - `sslmode`: `verify-full` encrypts and makes sure that the server is the one that was named;
///   `verify-ca` makes sure of its certificate, whatever name is in it; `disable` does not encrypt.
///   `require` means `verify-full` here: to encrypt for whoever answers protects from nobody.
///   `allow` and `prefer` do not encrypt, and are for servers on this machine only. When nothing is
///   said, a server on this machine is talked to in plain, and any other one as with `verify-full`.
/// - `sslrootcert`: a PEM file with the certificates to trust. When nothing is said, or `system`,
///   those of the operating system.
/// - `sslcert` and `sslkey`: PEM files with a certificate of ours and its key.
///
/// Everything else is the driver's; see [`postgres::Config`]. On this machine are Unix sockets,
/// `localhost` and loopback addresses.
///
/// ```
/// use redrive::Address;
///
/// # fn main() -> redrive::Result<()> {
/// let here: Address = "host=/run/postgresql dbname=shop".parse()?;
/// assert!(!here.is_encrypted());
/// let elsewhere: Address = "postgres://me@db.example.com/shop?sslmode=disable".parse()?;
/// assert!(!elsewhere.is_encrypted());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Address {
    config: Config,
    connector: Connector,
}

impl Address {
    /// One connection of one's own, outside of any pool.
    ///
    /// It waits for as long as a server says nothing, as the driver does.
    ///
    /// # Errors
    /// *Unavailable* when the server cannot be reached; otherwise what the server, or the check of
    /// its certificate, has against it.
    pub fn connect(&self) -> Result<Client> {
        self.config
            .connect(self.connector.clone())
            .map_err(|error| Error::from_postgres("connect to the database", error))
    }

    /// Whether what is said to the server is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.config.get_ssl_mode() == SslMode::Require
    }

    /// What the driver was told.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The same, to change it: timeouts, the name of the application.
    pub fn config_mut(&mut self) -> &mut Config {
        &mut self.config
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(address: &str) -> Result<Address> {
        let (rest, words) = words::take(address.trim())?;
        let mut config = Config::from_str(&rest).map_err(|error| unreadable(&error))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(Error::invalid("the database URL names no host"));
        }
        let connector = match decide(words.mode.as_deref(), place(&config))? {
            None => {
                config.ssl_mode(SslMode::Disable);
                tls::none()
            }
            Some(trust) => {
                config.ssl_mode(SslMode::Require);
                tls::connector(trust, &roots(&words), identity(&words)?.as_ref())?
            }
        };
        Ok(Address { config, connector })
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The driver leaves the password out.
        f.debug_struct("Address")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Where the hosts of an address are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// All of them are Unix sockets, which no TLS goes over.
    Socket,
    /// All of them are this machine.
    Here,
    /// Some are not.
    Elsewhere,
}

fn place(config: &Config) -> Place {
    let is_socket = |host: &Host| matches!(host, Host::Unix(_));
    let is_here = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        }
    };
    // An address of a host is where the bytes go, whatever its name is.
    match (config.get_hosts(), config.get_hostaddrs()) {
        (_, [_, ..]) if config.get_hostaddrs().iter().all(IpAddr::is_loopback) => Place::Here,
        (_, [_, ..]) => Place::Elsewhere,
        (hosts, []) if hosts.iter().all(is_socket) => Place::Socket,
        (hosts, []) if hosts.iter().all(is_here) => Place::Here,
        _ => Place::Elsewhere,
    }
}

/// Whom to trust; `None`: nobody, in plain.
fn decide(mode: Option<&str>, place: Place) -> Result<Option<Trust>> {
    match (mode, place) {
        (Some("disable") | None, Place::Socket | Place::Here) => Ok(None),
        (Some("disable"), Place::Elsewhere) => Ok(None),
        (Some("allow" | "prefer"), Place::Socket | Place::Here) => Ok(None),
        (Some(mode @ ("allow" | "prefer")), Place::Elsewhere) => Err(Error::invalid(format!(
            "sslmode={mode} lets whoever is between here and the database read everything: say \
             sslmode=verify-full, or sslmode=disable when the network is to be trusted"
        ))),
        (Some("require" | "verify-full" | "verify-ca"), Place::Socket) => Ok(None),
        (Some("verify-ca"), Place::Here | Place::Elsewhere) => Ok(Some(Trust::Certificate)),
        (Some("require" | "verify-full"), Place::Here | Place::Elsewhere) => {
            Ok(Some(Trust::CertificateAndName))
        }
        (None, Place::Elsewhere) => Ok(Some(Trust::CertificateAndName)),
        // It is not repeated: a slip may have put a password there.
        (Some(_), _) => Err(Error::invalid(
            "sslmode is one of disable, verify-ca, verify-full, require, allow, prefer",
        )),
    }
}

fn roots(words: &Words) -> Roots {
    match words.roots.as_deref() {
        None | Some("system") => Roots::System,
        Some(file) => Roots::File(PathBuf::from(file)),
    }
}

fn identity(words: &Words) -> Result<Option<Identity>> {
    match (&words.certificate, &words.key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(Identity {
            certificate: certificate.into(),
            key: key.into(),
        })),
        _ => Err(Error::invalid("sslcert and sslkey belong together")),
    }
}

/// Says what is wrong with a URL without repeating any of it: it may hold a password.
fn unreadable(error: &postgres::Error) -> Error {
    let refused = Error::invalid("the database URL cannot be read");
    match std::error::Error::source(error).map(ToString::to_string) {
        // Names one of the driver's own options, and nothing of its value.
        Some(cause) if cause.starts_with("invalid value for option") => refused.caused_by(cause),
        Some(_) | None => refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(address: &str) -> Place {
        place(&Config::from_str(address).expect("an address"))
    }

    #[test]
    fn this_machine_is_told_from_others() {
        for (address, expected) in [
            ("host=/run/postgresql", Place::Socket),
            ("postgres://%2Frun%2Fpostgresql/db", Place::Socket),
            ("postgres://localhost/db", Place::Here),
            ("postgres://127.0.0.1,[::1]/db", Place::Here),
            ("host=/run/postgresql,localhost", Place::Here),
            ("postgres://localhost,db.example.com/db", Place::Elsewhere),
            ("postgres://10.0.0.7/db", Place::Elsewhere),
            ("postgres://localhost.example.com/db", Place::Elsewhere),
            ("host=db hostaddr=127.0.0.1", Place::Here),
            ("host=localhost hostaddr=10.0.0.7", Place::Elsewhere),
        ] {
            assert_eq!(parsed(address), expected, "{address}");
        }
    }

    #[test]
    fn nobody_elsewhere_is_talked_to_in_plain_unless_that_was_said() {
        use Place::{Elsewhere, Here, Socket};
        let (name, chain) = (Some(Trust::CertificateAndName), Some(Trust::Certificate));
        for (mode, place, expected) in [
            (None, Socket, Some(None)),
            (None, Here, Some(None)),
            (None, Elsewhere, Some(name)),
            (Some("disable"), Here, Some(None)),
            (Some("disable"), Elsewhere, Some(None)),
            (Some("allow"), Here, Some(None)),
            (Some("allow"), Elsewhere, None),
            (Some("prefer"), Socket, Some(None)),
            (Some("prefer"), Elsewhere, None),
            (Some("require"), Socket, Some(None)),
            (Some("require"), Here, Some(name)),
            (Some("require"), Elsewhere, Some(name)),
            (Some("verify-ca"), Here, Some(chain)),
            (Some("verify-ca"), Elsewhere, Some(chain)),
            (Some("verify-full"), Here, Some(name)),
            (Some("verify-full"), Elsewhere, Some(name)),
            (Some("verify_full"), Elsewhere, None),
            (Some(""), Here, None),
        ] {
            let decided = decide(mode, place);
            assert_eq!(decided.ok(), expected, "{mode:?} {place:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for wrong in [
            "postgres://me:s3cret@host:no-port/db",
            "postgres://me:s3cret@10.0.0.7/db?sslmode=prefer",
            "postgres://me@10.0.0.7/db?sslmode=s3cret",
            "host=10.0.0.7 password=s3cret sslmode=verify-full sslcert=mine.pem",
            "host=10.0.0.7 password=s3cret sslrootcert=no/such/file",
            "host=10.0.0.7 password='s3cret",
            "dbname=s3cret",
        ] {
            let error = wrong.parse::<Address>().expect_err(wrong);
            assert!(error.is_invalid(), "{wrong}: {error:?}");
            assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        }
        let address: Address = "postgres://me:s3cret@localhost/db".parse().expect("good");
        assert!(!format!("{address:?}").contains("s3cret"));
    }
}
