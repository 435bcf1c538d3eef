//! The metric catalogue as JSON, for the checks written in JavaScript.

use redrive::metrics::{CATALOGUE, Metric, MetricKind};
use serde_json::{Map, Value, json};

/// Returns a list of `{name, type, labels, values}`. `values` holds the values of labels that have
/// a fixed set.
pub(crate) fn as_json() -> Value {
    CATALOGUE.iter().map(entry).collect()
}

fn entry(metric: &Metric) -> Value {
    let kind = match metric.kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram(_) => "histogram",
    };
    let labels: Vec<&str> = metric.labels.iter().map(|label| label.name).collect();
    let values: Map<String, Value> = metric
        .labels
        .iter()
        .filter(|label| !label.values.is_empty())
        .map(|label| (label.name.to_owned(), json!(label.values)))
        .collect();
    json!({ "name": metric.name, "type": kind, "labels": labels, "values": values })
}
