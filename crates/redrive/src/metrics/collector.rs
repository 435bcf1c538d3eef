//! Publishes the metrics in a `prometheus` registry of the program.

use std::collections::HashMap;
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto;

use crate::db::database::Database;
use crate::metrics::{Reader, to_proto};
use crate::sync::{Instant, Mutex, lock};

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
    /// Stands for all metrics, so that a registry refuses a second collector.
    up: Option<Desc>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    reader: Reader,
    /// The last reading, and when it ended.
    last: Option<(Instant, Vec<proto::MetricFamily>)>,
}

impl MetricsCollector {
    /// Returns a collector for the database. It connects at the first scrape.
    pub fn new(database: &Database) -> MetricsCollector {
        let (name, help) = ("redrive_up".to_owned(), "See the catalogue.".to_owned());
        MetricsCollector {
            database: database.clone(),
            deadline: DEFAULT_DEADLINE,
            up: Desc::new(name, help, Vec::new(), HashMap::new()).ok(),
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
        self.up.iter().collect()
    }

    fn collect(&self) -> Vec<proto::MetricFamily> {
        let asked = Instant::now();
        let mut state = lock(&self.state);
        // While the database is silent, scrapes that wait for each other would take the whole time, each in turn.
        if let Some((ended, families)) = &state.last
            && *ended > asked
        {
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
