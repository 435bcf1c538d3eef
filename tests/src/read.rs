//! Reading the metrics, and finding a number in what was read or asked.

use std::time::Duration;

use postgres::{Client, GenericClient};
use redrive::metrics::{MetricKind, Reader, Reading, Sample};

/// Reads with a deadline that a healthy database never reaches.
pub fn read(reader: &mut Reader, client: &mut Client) -> Reading {
    reader.read(client, Duration::from_secs(20))
}

/// Returns the value of a series, or the number of observations of a histogram.
pub fn number(samples: &[Sample], name: &str, labels: &[&str]) -> Option<f64> {
    let mut samples = samples.iter();
    let sample = samples.find(|s| s.metric.name == name && *s.labels == *labels)?;
    Some(match sample.metric.kind {
        MetricKind::Counter | MetricKind::Gauge => sample.numbers[0],
        MetricKind::Histogram(bounds) => sample.numbers[..=bounds.len()].iter().sum(),
    })
}

/// Returns the whole number that a query returns.
#[track_caller]
pub fn scalar(client: &mut impl GenericClient, query: &str) -> i64 {
    client.query_one(query, &[]).expect(query).get(0)
}

/// Returns the value of a series, written as `queue_jobs{orders,ready}`, without its prefix.
pub fn series(reading: &Reading, name: &str) -> Option<f64> {
    let (name, labels) = name.split_once('{').unwrap_or((name, "}"));
    let labels = labels.trim_end_matches('}');
    let labels = labels.split(',').filter(|label| !label.is_empty());
    let labels: Vec<&str> = labels.collect();
    number(&reading.samples, &format!("redrive_{name}"), &labels)
}

/// Fails unless the series, written as `queue_jobs{orders,ready}`, has this value.
#[track_caller]
pub fn says(reading: &Reading, name: &str, value: f64) {
    assert_eq!(series(reading, name), Some(value), "{name}");
}

/// Fails unless the series has this value.
#[track_caller]
pub fn reads(reading: &Reading, name: &str, labels: &[&str], value: f64) {
    let found = number(&reading.samples, name, labels);
    assert_eq!(found, Some(value), "{name}{labels:?}");
}
