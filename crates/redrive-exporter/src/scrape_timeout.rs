//! How long a scrape may take, by the timeout that Prometheus announces. Pure.

use std::time::Duration;

/// The request header with the scrape timeout of Prometheus, in seconds.
pub(crate) const HEADER: &str = "X-Prometheus-Scrape-Timeout-Seconds";

/// The time for a scrape without the header.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
const MIN_TIMEOUT: Duration = Duration::from_millis(100);
const MAX_TIMEOUT: Duration = Duration::from_secs(30);
/// Time reserved for the network and for the response.
const RESERVE: Duration = Duration::from_millis(500);

/// Returns the time for a scrape, from the value of the [header](HEADER).
///
/// That is the announced timeout minus half a second, or half the timeout if that is longer; at
/// least 100 milliseconds and at most 30 seconds. Defaults to 5 seconds if the header is missing or
/// invalid.
pub(crate) fn scrape_timeout(header: Option<&str>) -> Duration {
    let announced = header
        .and_then(|value| value.trim().parse::<f64>().ok())
        .filter(|seconds| *seconds > 0.0)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    announced.map_or(DEFAULT_TIMEOUT, |timeout| {
        timeout
            .saturating_sub(RESERVE)
            .max(timeout / 2)
            .clamp(MIN_TIMEOUT, MAX_TIMEOUT)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_ends_before_prometheus_stops_waiting() {
        let millis = |header| scrape_timeout(header).as_millis();
        for (header, expected) in [
            (None, 5000),
            (Some("10"), 9500),
            (Some(" 2 "), 1500),
            (Some("1"), 500),
            (Some("0.01"), 100),
            (Some("1e9"), 30_000),
            // Invalid values.
            (Some("1e300"), 5000),
            (Some("0"), 5000),
            (Some("NaN"), 5000),
            (Some("ten"), 5000),
        ] {
            assert_eq!(millis(header), expected, "{header:?}");
        }
    }
}
