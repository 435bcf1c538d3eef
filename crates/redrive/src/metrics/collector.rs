//! Publishes the metrics in a `prometheus` registry of the program.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus::core::{Collector, Desc};
use prometheus::proto;

use crate::db::database::Database;
use crate::metrics::{CATALOGUE, Reader, to_proto};

/// Less than 10 seconds, the default scrape timeout of Prometheus.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(5);

/// Publishes the metrics in a `prometheus::Registry`, for programs with a metrics endpoint.
///
/// Use it in one program only. The metrics cover the whole database, as those of the exporter do,
/// so a second publisher duplicates every series.
///
/// A scrape uses one connection of the pool and takes at most 5 seconds by default, see
/// [`deadline`](MetricsCollector::deadline). If a metric cannot be read in time, its last good
/// value is published for 5 minutes, and `redrive_up` or `redrive_collector_success` is 0.
/// Concurrent scrapes share one reading.
///
/// The [guide](crate::_guide::monitoring) has an example.
#[derive(Debug)]
pub struct MetricsCollector {
    database: Database,
    deadline: Duration,
    descriptions: Vec<Desc>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    reader: Reader,
    /// The last reading, and when it ended.
    last: Option<(Instant, Vec<proto::MetricFamily>)>,
}

impl State {
    /// Returns a reading that ended after this moment. While the database is silent, scrapes that wait for each other
    /// would otherwise take the whole time, each in turn.
    fn read_since(&self, asked: Instant) -> Option<&Vec<proto::MetricFamily>> {
        let last = self.last.as_ref();
        last.filter(|(ended, _)| *ended > asked)
            .map(|(_, families)| families)
    }
}

impl MetricsCollector {
    /// Returns a collector for the database. It connects at the first scrape.
    pub fn new(database: &Database) -> MetricsCollector {
        MetricsCollector {
            database: database.clone(),
            deadline: DEFAULT_DEADLINE,
            descriptions: descriptions(),
            state: Mutex::new(State {
                reader: Reader::new(env!("CARGO_PKG_VERSION")),
                last: None,
            }),
        }
    }

    /// Sets the maximum duration of a scrape.
    ///
    /// Defaults to 5 seconds. Keep it below the scrape timeout of Prometheus.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> MetricsCollector {
        self.deadline = deadline;
        self
    }
}

impl Collector for MetricsCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<proto::MetricFamily> {
        let asked = Instant::now();
        // A panic while the lock is held cannot leave the state invalid.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(families) = state.read_since(asked) {
            return families.clone();
        }
        let budget = self.deadline.mul_f64(0.9);
        let last = &state.reader;
        let (reader, reading) = last.read_within(&self.database, budget, self.deadline);
        state.reader = reader;
        let families = to_proto(&reading.samples);
        state.last = Some((Instant::now(), families.clone()));
        families
    }
}

/// Describes every metric of the catalogue. A test checks that no description is invalid.
fn descriptions() -> Vec<Desc> {
    let descriptions = CATALOGUE.iter().filter_map(|metric| {
        let labels = metric.labels.iter().map(|label| label.name.to_owned());
        Desc::new(
            metric.name.to_owned(),
            metric.help.to_owned(),
            labels.collect(),
            std::collections::HashMap::new(),
        )
        .ok()
    });
    descriptions.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_a_valid_description() {
        assert_eq!(descriptions().len(), CATALOGUE.len());
    }

    #[test]
    fn a_scrape_that_waited_gets_the_reading_of_the_one_before() {
        let asked = Instant::now();
        let ended = asked + Duration::from_secs(1);
        let state = |last| State {
            reader: Reader::new("1"),
            last,
        };
        assert_eq!(state(None).read_since(asked), None);
        let state = state(Some((ended, Vec::new())));
        assert_eq!(state.read_since(asked), Some(&Vec::new()));
        assert_eq!(state.read_since(ended), None);
    }
}
