//! The tables of the page of metrics, from the catalogue.

use std::path::Path;

use anyhow::Result;
use redrive::metrics::{CATALOGUE, Metric, MetricKind};

use super::{Generated, between};

const FILE: &str = "crates/redrive-exporter/METRICS.md";

const MARKS: (&str, &str) = (
    "<!-- metrics: written by `cargo xtask generate` -->\n",
    "<!-- end of metrics -->\n",
);

fn kind(metric: &Metric) -> &'static str {
    match metric.kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram(_) => "histogram",
    }
}

fn labels(metric: &Metric) -> String {
    let labels = metric.labels.iter().map(|label| {
        if label.values.is_empty() {
            format!("`{}`", label.name)
        } else {
            format!("`{}` ({})", label.name, label.values.join(", "))
        }
    });
    labels.collect::<Vec<_>>().join(", ")
}

fn bounds(metric: &Metric) -> Option<String> {
    let MetricKind::Histogram(bounds) = metric.kind else {
        return None;
    };
    let bounds: Vec<String> = bounds.iter().map(ToString::to_string).collect();
    Some(bounds.join(", "))
}

/// Returns the page with its tables.
pub(super) fn generated(root: &Path) -> Result<Generated> {
    let mut text = "| name | type | labels | source | help |\n|---|---|---|---|---|\n".to_owned();
    text.extend(CATALOGUE.iter().map(|metric| {
        format!(
            "| `{}` | {} | {} | {} | {} |\n",
            metric.name,
            kind(metric),
            labels(metric),
            metric.source.as_str(),
            metric.help
        )
    }));
    text.push_str("\n## Bounds of the histograms\n\nUpper bounds, inclusive. `+Inf` follows the last one.\n\n| name | bounds |\n|---|---|\n");
    text.extend(CATALOGUE.iter().filter_map(|metric| {
        let bounds = bounds(metric)?;
        Some(format!("| `{}` | {bounds} |\n", metric.name))
    }));
    between(root, FILE, MARKS, &text)
}
