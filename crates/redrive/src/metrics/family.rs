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
    /// The value of a counter or gauge. Of a histogram, the number of observations per bucket, not cumulative, of
    /// which the last counts those above the highest bound, and after them the sum of all observed values.
    pub numbers: Vec<f64>,
}
