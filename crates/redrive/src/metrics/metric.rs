//! Defines metrics, their types, labels and sources, and the values that a reading returns.

use std::sync::Arc;

use crate::job::words::words;

/// The type of a metric.
// Exhaustive: an exposition that ignores a type of metric is wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricKind {
    /// A value that only increases. The metric name ends in `_total`.
    Counter,
    /// A value that can increase and decrease.
    Gauge,
    /// Counts per bucket. The bounds are inclusive upper bounds, without `+Inf`.
    Histogram(&'static [f64]),
}

words! {
    /// The source of a metric, which is the value of its label `collector`.
    ///
    /// Each source is read with a separate query. If that query fails, only the metrics of this source
    /// keep old values, and `redrive_collector_success` is 0 for it.
    #[derive(Ord, PartialOrd)]
    pub enum Source is "source of metrics" {
        /// Counters and histograms that redrive's statements maintain.
        Totals = "totals",
        /// Live jobs and their ages.
        Queues = "queues",
        /// Dead letters and their ages.
        Letters = "letters",
        /// Workers, breakers, pauses, rate limits, schedules and redrive runs.
        Operations = "operations",
        /// The server: xmin horizon, replication slots, locks and connections.
        Server = "server",
        /// Table sizes, dead rows, bloat and the segment ring.
        Tables = "tables",
        /// The [`Reader`](crate::metrics::Reader), without a query.
        Reader = "reader",
    }
}

words! {
    /// Why the numbers cannot be trusted: the value of the label `cause`.
    pub(crate) enum Distrust is "cause" {
        /// The database did not answer.
        Unreachable = "unreachable",
        /// The database has no schema.
        Schema = "schema",
        /// The role lacks a privilege.
        Privilege = "privilege",
        /// A necessary source could not be read for too long.
        Collector = "collector",
    }
}

impl Source {
    /// The sources that query the database, in reading order.
    pub const DATABASE: [Source; 6] = {
        let [database @ .., _reader] = Source::ALL;
        database
    };
}

/// The definition of a metric.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Metric {
    /// The full name, such as `redrive_jobs_enqueued_total`.
    pub name: &'static str,
    /// The type.
    pub kind: MetricKind,
    /// The labels, in the order of [`Sample::labels`](crate::metrics::Sample::labels).
    pub labels: &'static [Label],
    /// The source that the metric is read from.
    pub source: Source,
    /// The help text.
    pub help: &'static str,
}

/// A label of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Label {
    /// The name.
    pub name: &'static str,
    /// All values, if they are known in advance: each one is published from the start, as 0.
    /// Empty for labels with any value, such as `queue`.
    pub values: &'static [&'static str],
}

/// One value of a metric.
// Exhaustive: programs build samples to test what they expose.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The definition of the metric.
    pub metric: &'static Metric,
    /// The label values, in the order of [`Metric::labels`].
    pub labels: Arc<[String]>,
    /// The value of a counter or gauge. Of a histogram, the number of observations per bucket, not cumulative, of
    /// which the last counts those above the highest bound, and after them the sum of all observed values.
    pub numbers: Vec<f64>,
}
