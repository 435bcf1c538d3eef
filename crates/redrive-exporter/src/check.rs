//! `--check`: asks a running exporter whether it is ready.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::listen::reachable;
use crate::pages::READY;

/// How long to wait for each step of the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// No answer is longer.
const LONGEST: u64 = 16 << 10;

/// What an exporter said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// Whether it is ready.
    pub(crate) is_ready: bool,
    /// In its own words.
    pub(crate) words: String,
}

/// Asks whoever listens on this address.
pub(crate) fn check(address: &str) -> Result<Said> {
    let mut last = None;
    for place in reachable(address)? {
        match ask(place) {
            Ok(answer) => return said(&answer, address),
            Err(error) => last = Some(error),
        }
    }
    let nobody = format!("nobody answers at {address}");
    Err(match last {
        Some(error) => Error::caused_by(nobody, error),
        None => Error::new(nobody),
    })
}

fn ask(place: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&place, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(stream, "GET {READY} HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn said(answer: &str, address: &str) -> Result<Said> {
    let status = answer
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split(' ').nth(1));
    match status {
        Some(status @ ("200" | "503")) => Ok(Said {
            is_ready: status == "200",
            words: answer.lines().last().unwrap_or_default().to_owned(),
        }),
        _ => Err(Error::new(format!(
            "who answers at {address} is no redrive-exporter"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_understood() {
        let ready = said("HTTP/1.0 200 OK\r\nServer: x\r\n\r\nReady.\n", "a:1");
        let expected = Said {
            is_ready: true,
            words: "Ready.".to_owned(),
        };
        assert_eq!(ready.expect("an answer"), expected);
        assert!(
            !said("HTTP/1.1 503 No\r\n\r\nNo.\n", "a:1")
                .expect("an answer")
                .is_ready
        );
        for other in ["", "HTTP/1.1 404 Not Found\r\n\r\n", "SSH-2.0-x"] {
            said(other, "a:1").expect_err(other);
        }
    }
}
