//! How long a scrape may take, by what the one who asks says.

use std::time::Duration;

/// The header in which Prometheus says when it stops waiting, in seconds.
pub(crate) const HEADER: &str = "X-Prometheus-Scrape-Timeout-Seconds";

/// How long a scrape may take when nothing is said.
const USUAL: Duration = Duration::from_secs(5);
/// What is left of the time for the way there and back.
const WAY: Duration = Duration::from_millis(500);
/// Nobody has to wait for longer than this.
const LONGEST: Duration = Duration::from_secs(30);
/// Less is of no use to anybody.
const SHORTEST: Duration = Duration::from_millis(100);

/// How long a scrape may take, by the value of the [header](HEADER): what it says less half a
/// second, or half of it when that is more; 5 seconds when it says nothing that makes sense.
pub(crate) fn deadline(header: Option<&str>) -> Duration {
    let said = header
        .and_then(|value| value.trim().parse::<f64>().ok())
        .filter(|seconds| *seconds > 0.0)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    said.map_or(USUAL, |timeout| {
        timeout
            .saturating_sub(WAY)
            .max(timeout / 2)
            .clamp(SHORTEST, LONGEST)
    })
}

/// How much of the time until the deadline the database may use: the rest is for the answer.
pub(crate) fn budget(left: Duration) -> Duration {
    left.saturating_sub((left / 4).min(WAY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_ends_before_prometheus_stops_waiting() {
        let millis = |header| deadline(header).as_millis();
        for (header, expected) in [
            (None, 5000),
            (Some("10"), 9500),
            (Some("10.000000"), 9500),
            (Some(" 2 "), 1500),
            (Some("1"), 500),
            (Some("0.4"), 200),
            (Some("0.01"), 100),
            (Some("120"), 30_000),
            (Some("1e9"), 30_000),
            // Nothing that makes sense.
            (Some("1e300"), 5000),
            (Some("0"), 5000),
            (Some("-3"), 5000),
            (Some("NaN"), 5000),
            (Some("inf"), 5000),
            (Some("ten"), 5000),
            (Some(""), 5000),
        ] {
            assert_eq!(millis(header), expected, "{header:?}");
        }
    }

    #[test]
    fn the_database_gets_less_than_there_is() {
        for millis in [100, 500, 2000, 9500] {
            let left = Duration::from_millis(millis);
            assert!(budget(left) < left && budget(left) >= left / 2, "{left:?}");
        }
        assert_eq!(budget(Duration::ZERO), Duration::ZERO);
    }
}
