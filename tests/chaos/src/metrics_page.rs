//! Reads the exporter's page, as Prometheus does.

#![expect(clippy::cast_possible_truncation, reason = "counts and seconds")]

use std::collections::BTreeMap;
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

fn read(port: u16) -> Option<String> {
    let page = ureq::get(format!("http://127.0.0.1:{port}/metrics")).call();
    page.ok()?.into_body().read_to_string().ok()
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
