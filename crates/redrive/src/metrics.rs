//! Reads and publishes the metrics of redrive.
//!
//! [`CATALOGUE`] defines the name, type, labels, help text and bucket bounds of every metric. The
//! documentation, the dashboards and the alerts are checked against it.

mod metric;
mod catalogue;
mod series;
mod names;
mod guard;
mod zero;
mod source_state;
mod reader;
#[cfg(feature = "prometheus")]
mod proto;
#[cfg(feature = "prometheus")]
mod collector;

pub use catalogue::{CATALOGUE, OTHER};
#[cfg(feature = "prometheus")]
pub use collector::MetricsCollector;
pub use metric::{Label, Metric, MetricKind, Sample, Source};
#[cfg(feature = "prometheus")]
pub use proto::to_proto;
pub use reader::{Reader, Reading};
