//! Metrics: every number that redrive publishes, by one catalogue.
//!
//! [`CATALOGUE`] says what there is: names, types, labels, help texts, bounds. The exporter, the
//! in-process collector, the documentation, the dashboards and the alerts are checked against it.

mod answer;
mod bounds;
mod catalogue;
#[cfg(feature = "prometheus")]
mod collector;
mod family;
mod guard;
mod horizon;
mod names;
#[cfg(feature = "prometheus")]
mod proto;
mod reader;
mod series;
mod zero;

pub(crate) use bounds::{BOUNDS, bucket};
pub use catalogue::{
    CATALOGUE, CLASS_SLOTS, KIND_SLOTS, Label, Metric, MetricKind, OTHER, QUEUE_SLOTS, Source,
};
#[cfg(feature = "prometheus")]
pub use collector::MetricsCollector;
pub use family::{Family, Sample, Value};
#[cfg(feature = "prometheus")]
pub use proto::to_proto;
pub use reader::{Reader, Reading};
