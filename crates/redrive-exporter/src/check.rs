//! `--check`: asks a running exporter whether it is ready.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};

use crate::handler::READY;
use crate::http::client_addresses;

/// The timeout of connecting, and of each read and write.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum length of the response.
const MAX_BYTES: u64 = 16 * 1024;

/// Asks the exporter at a listen address whether it is ready, and for its message.
pub(crate) fn check(address: &str) -> Result<(bool, String)> {
    let mut last_error = None;
    for candidate in client_addresses(address)? {
        match request(candidate) {
            Ok(response) => return parse(&response, address),
            Err(error) => last_error = Some(error),
        }
    }
    let message = format!("no answer from {address}");
    Err(match last_error {
        Some(error) => anyhow!(error).context(message),
        None => anyhow!(message),
    })
}

fn request(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    write!(stream, "GET {READY} HTTP/1.0\r\n\r\n")?;
    let mut response = Vec::new();
    stream.take(MAX_BYTES).read_to_end(&mut response)?;
    Ok(String::from_utf8_lossy(&response).into_owned())
}

fn parse(response: &str, address: &str) -> Result<(bool, String)> {
    let status = response
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split(' ').nth(1));
    match status {
        Some(status @ ("200" | "503")) => {
            let message = response.lines().last().unwrap_or_default();
            Ok((status == "200", message.to_owned()))
        }
        _ => bail!("the server at {address} is not a redrive-exporter"),
    }
}
