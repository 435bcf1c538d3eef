//! Metrics: every number that redrive publishes, by one catalogue.
//!
//! [`CATALOGUE`] says what there is: names, types, labels, help texts, bounds. The exporter, the
//! in-process collector, the documentation, the dashboards and the alerts are checked against it.

mod bounds;
mod catalogue;
mod family;

pub(crate) use bounds::{BOUNDS, bucket};
pub use catalogue::{
    CATALOGUE, CLASS_SLOTS, KIND_SLOTS, Label, Metric, MetricKind, OTHER, QUEUE_SLOTS, Source,
};
pub use family::{Family, Sample, Value};
