//! Reads the exporter's page, as Prometheus does.

#![expect(clippy::cast_possible_truncation, reason = "counts and seconds")]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::clock;

/// How long to wait for the exporter, which reads the database every few seconds: a guard against a hang.
const TIMEOUT: Duration = Duration::from_mins(2);
/// When the exporter began to read the counters, in seconds since 1970.
const READ_AT: &str = "redrive_collector_last_success_timestamp_seconds{collector=\"totals\"} ";

/// Returns the counters on the page, summed over their labels, once the exporter has read them since the call.
pub(crate) fn settled(port: u16) -> Option<BTreeMap<String, i64>> {
    let (now, until) = (clock::now() / 1_000_000, Instant::now() + TIMEOUT);
    while Instant::now() < until {
        let page = read(port).unwrap_or_default();
        let read_at = page.lines().find_map(|line| line.strip_prefix(READ_AT));
        if read_at.is_some_and(|at| at.parse::<f64>().is_ok_and(|at| at as i64 > now)) {
            return Some(counters(&page));
        }
        thread::sleep(Duration::from_millis(200));
    }
    None
}

/// Returns a free port of this machine.
pub(crate) fn free_port() -> u16 {
    // Below the ports that Linux gives to outgoing connections: one of these could take it.
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    std::iter::repeat_with(|| fastrand::u16(10_000..32_000))
        .find(is_free)
        .expect("an endless search")
}

fn read(port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: chaos\r\nConnection: close\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    Ok(page)
}

fn counters(page: &str) -> BTreeMap<String, i64> {
    let mut sums = BTreeMap::new();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, value)) = line.rsplit_once(' ') else {
            continue;
        };
        let name = series.split('{').next().unwrap_or_default();
        if let (true, Ok(value)) = (name.ends_with("_total"), value.parse::<f64>()) {
            *sums.entry(name.to_owned()).or_default() += value as i64;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_over_their_labels() {
        let page = "HTTP/1.1 200 OK\r\n\r\n# TYPE a_total counter\na_total{q=\"x\"} 2\na_total{q=\"y z\"} 3\nb 7\n";
        assert_eq!(counters(page), BTreeMap::from([("a_total".to_owned(), 5)]));
    }
}
