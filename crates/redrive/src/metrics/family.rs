//! Families: metrics with their values.

use std::sync::Arc;

use crate::metrics::Metric;

/// A metric with its values.
#[derive(Clone, Debug)]
pub struct Family {
    /// Which one.
    pub metric: &'static Metric,
    /// A value for each combination of labels.
    pub samples: Vec<Sample>,
}

/// One value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The values of the metric's labels, in their order.
    pub labels: Arc<[String]>,
    /// The value.
    pub value: Value,
}

/// What a sample says.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of a counter or a gauge.
    Number(f64),
    /// Of a histogram.
    Buckets {
        /// How many fell between each bound and the one before it, and over the last one. Not
        /// cumulative; one more than the metric has bounds.
        counts: Vec<u64>,
        /// The sum of what was observed.
        sum: f64,
    },
}
