//! Dial: a connection within a deadline, whatever the server does.
//!
//! The driver bounds the connection of TCP and nothing after it: with a server that takes
//! connections and never answers, it waits for ever. So an attempt runs on a thread of its own,
//! which is left behind when no answer comes in time. What is left behind ends with its socket, and
//! until then there are few of them: while some are stuck, the server is asked for a sign of life
//! first, on a socket that has deadlines.

use std::fmt;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use postgres::config::Host;
use postgres::{Client, Config};

use crate::address::Address;
use crate::error::{Error, Result};
use crate::stuck::Stuck;

/// How many attempts may be stuck when a server cannot be asked for a sign of life: on a Unix
/// socket, where silence ends with the server.
const MOST_STUCK: usize = 16;

/// The port that the driver takes when none is said.
const PORT: u16 = 5432;

/// What every server answers with one byte before it knows who asks: whether it talks TLS.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// Opens connections to one address.
#[derive(Clone)]
pub(crate) struct Dial {
    address: Address,
    /// How long an attempt may take.
    patience: Duration,
    stuck: Stuck,
}

impl Dial {
    pub(crate) fn new(address: Address, patience: Duration) -> Dial {
        Dial {
            address,
            patience,
            stuck: Stuck::connecting(),
        }
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// *Unavailable* when there is no answer in time; what the server has against it.
    pub(crate) fn dial(&self) -> Result<Client> {
        const DOING: &str = "connect to the database";
        let until = Instant::now() + self.patience;
        if self.stuck.calls() > 0 {
            self.look_for_life(until)?;
        }
        let (reply, answer) = bounded(1);
        let ticket = self.stuck.ticket();
        let (address, mine) = (self.address.clone(), ticket.clone());
        thread::Builder::new()
            .name("redrive-dial".to_owned())
            .spawn(move || {
                mine.begin();
                let client = address.connect();
                mine.end();
                // Nobody may be there any more: then the connection is closed here.
                _ = reply.send(client);
            })
            .map_err(|error| Error::unavailable(format!("could not {DOING}")).caused_by(error))?;
        answer.recv_deadline(until).unwrap_or_else(|_| {
            ticket.give_up();
            Err(self.no_answer())
        })
    }

    /// Makes sure that somebody answers, because some attempts have not been answered yet.
    fn look_for_life(&self, until: Instant) -> Result<()> {
        let doors = doors(self.address.config());
        let is_there = match doors.is_empty() {
            true => self.stuck.calls() < MOST_STUCK,
            false => doors.iter().any(|door| answers(*door, until)),
        };
        match is_there {
            true => Ok(()),
            false => Err(self.no_answer()),
        }
    }

    fn no_answer(&self) -> Error {
        Error::unavailable(format!(
            "could not connect to the database: it did not answer within {:?}",
            self.patience
        ))
    }
}

impl r2d2::ManageConnection for Dial {
    type Connection = Client;
    type Error = Error;

    fn connect(&self) -> Result<Client> {
        self.dial()
    }

    fn is_valid(&self, client: &mut Client) -> Result<()> {
        client
            .simple_query("")
            .map(drop)
            .map_err(|error| Error::from_postgres("use a connection", error))
    }

    fn has_broken(&self, client: &mut Client) -> bool {
        client.is_closed()
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dial")
            .field("address", &self.address)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

/// Where the hosts of an address listen on TCP.
fn doors(config: &Config) -> Vec<SocketAddr> {
    let port = |at: usize| {
        let ports = config.get_ports();
        ports.get(at).or(ports.first()).copied().unwrap_or(PORT)
    };
    let addresses = config.get_hostaddrs();
    if !addresses.is_empty() {
        let socket = |(at, ip): (usize, &std::net::IpAddr)| SocketAddr::new(*ip, port(at));
        return addresses.iter().enumerate().map(socket).collect();
    }
    let named = config.get_hosts().iter().enumerate();
    named
        .filter_map(|(at, host)| match host {
            Host::Tcp(name) => (&**name, port(at)).to_socket_addrs().ok(),
            Host::Unix(_) => None,
        })
        .flatten()
        .collect()
}

/// Whether anything is answered there in time; a refusal is an answer.
fn answers(door: SocketAddr, until: Instant) -> bool {
    let left = || {
        let left = until.saturating_duration_since(Instant::now());
        left.max(Duration::from_millis(1))
    };
    let ask = || {
        let mut stream = TcpStream::connect_timeout(&door, left())?;
        stream.set_write_timeout(Some(left()))?;
        stream.write_all(&SSL_REQUEST)?;
        stream.set_read_timeout(Some(left()))?;
        stream.read(&mut [0])
    };
    match ask() {
        Ok(_) => true,
        Err(error) => ![ErrorKind::TimedOut, ErrorKind::WouldBlock].contains(&error.kind()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A moment: long enough for who answers, short enough to wait for who does not.
    const MOMENT: Duration = Duration::from_millis(200);

    fn address(port: u16) -> Address {
        format!("host=127.0.0.1 port={port} user=me")
            .parse()
            .expect("an address")
    }

    #[test]
    fn where_hosts_listen_is_read_as_the_driver_reads_it() {
        for (address, expected) in [
            ("host=127.0.0.1 user=me", vec!["127.0.0.1:5432"]),
            ("host=db hostaddr=127.0.0.2 port=7", vec!["127.0.0.2:7"]),
            (
                "host=127.0.0.1,127.0.0.2 port=7,8",
                vec!["127.0.0.1:7", "127.0.0.2:8"],
            ),
            ("host=/run/postgresql", vec![]),
        ] {
            let config: Config = address.parse().expect("an address");
            let found: Vec<String> = doors(&config).iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{address}");
        }
    }

    #[test]
    fn a_server_that_never_answers_gets_one_attempt_and_then_is_asked_for_life() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("listen");
        let port = silent.local_addr().expect("a port").port();
        let dial = Dial {
            stuck: Stuck::default(),
            ..Dial::new(address(port), MOMENT)
        };
        for _ in 0..3 {
            let error = dial.dial().map(drop).expect_err("nobody answers");
            assert!(error.is_unavailable(), "{error:?}");
            assert_eq!(dial.stuck.calls(), 1, "one attempt, and no other");
        }
        // Whoever refuses answers.
        drop(silent);
        let error = dial.dial().map(drop).expect_err("nobody is there");
        assert!(!error.to_string().contains("within"), "{error:?}");
    }
}
