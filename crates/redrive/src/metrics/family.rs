//! Defines the values that a reading returns.

use std::sync::Arc;

use crate::metrics::Metric;

/// A metric and its samples.
// Exhaustive, like `Sample`: programs build families to test what they expose.
#[derive(Clone, Debug)]
pub struct Family {
    /// The definition of the metric.
    pub metric: &'static Metric,
    /// One sample per combination of label values.
    pub samples: Vec<Sample>,
}

/// One value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The label values, in the order of [`Metric::labels`].
    pub labels: Arc<[String]>,
    /// The value.
    pub value: Value,
}

/// The value of a sample.
// Exhaustive, as `MetricKind` is.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The value of a counter or gauge.
    Number(f64),
    /// The value of a histogram.
    Buckets {
        /// The number of observations per bucket, not cumulative. The last bucket counts
        /// observations above the highest bound.
        counts: Vec<u64>,
        /// The sum of all observed values.
        sum: f64,
    },
}
