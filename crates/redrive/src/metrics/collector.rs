//! The collector: the same metrics in a registry of the program's own.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto;

use crate::database::Database;
use crate::metrics::{CATALOGUE, Reader, to_proto};

/// How long a scrape may take: less than the ten seconds that Prometheus waits.
const DEADLINE: Duration = Duration::from_secs(5);

/// Publishes the metrics in a `prometheus::Registry`, for a program that has an endpoint of its own.
///
/// They are those of the exporter, about the whole database: let one program publish them, or
/// expect each series once for each. Each scrape uses one connection of the pool, on a thread of
/// the library, and has its answer within the deadline whatever the database does: what could not
/// be read has its last good value, and `redrive_up` and `redrive_collector_success` say so.
/// Scrapes at the same time take turns.
///
/// ```
/// use prometheus::{Registry, TextEncoder};
/// use redrive::metrics::MetricsCollector;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// db.migrate()?;
/// let registry = Registry::new();
/// registry.register(Box::new(MetricsCollector::new(&db)))?;
///
/// let text = TextEncoder::new().encode_to_string(&registry.gather())?;
/// println!("{text}");
/// assert!(text.contains("\nredrive_up 1\n"));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct MetricsCollector {
    database: Database,
    deadline: Duration,
    descriptions: Vec<Desc>,
    reader: Mutex<Reader>,
}

impl MetricsCollector {
    /// A collector for this database. It asks nothing yet.
    pub fn new(database: &Database) -> MetricsCollector {
        MetricsCollector {
            database: database.clone(),
            deadline: DEADLINE,
            descriptions: descriptions(),
            reader: Mutex::new(Reader::new(env!("CARGO_PKG_VERSION"))),
        }
    }

    /// How long a scrape may take. Defaults to 5 seconds; keep it under the timeout of the scraper.
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
        // A reader is good in any state that a panic could have left it in.
        let mut kept = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        // The thread works on a clone: when it does not come back, this one goes on.
        let mut reader = kept.clone();
        let budget = self.deadline.mul_f64(0.9);
        let read = self
            .database
            .call_within("read the metrics", self.deadline, move |session| {
                let reading = reader.read(session.client(), budget);
                Ok((reader, reading))
            });
        let reading = match read {
            Ok((reader, reading)) => {
                *kept = reader;
                reading
            }
            Err(error) => {
                log::debug!("{error}");
                kept.unreachable()
            }
        };
        to_proto(&reading.families)
    }
}

/// One for each metric of the catalogue. All of them are good: a test makes every one.
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
    fn every_metric_is_described() {
        assert_eq!(descriptions().len(), CATALOGUE.len());
    }
}
