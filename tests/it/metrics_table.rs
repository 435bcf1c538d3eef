//! The table of metrics in the documentation is the catalogue.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use redrive::metrics::{CATALOGUE, Metric, MetricKind};

/// Set to anything, it makes the test write the table instead.
const WRITE: &str = "REDRIVE_WRITE_METRICS";

const INTRODUCTION: &str = "\
# Metrics

Every metric that redrive publishes, whether by `redrive-exporter` or by
`redrive::metrics::MetricsCollector` in a program of your own.
This table is made from the catalogue in `crates/redrive/src/metrics/catalogue.rs`;
`REDRIVE_WRITE_METRICS=1 cargo nextest run -p redrive-tests metrics_table` writes it anew.

The *source* is the value of the label `collector` of `redrive_collector_success` and its neighbours:
each source is read apart and fails apart, and then its last good values stay published.
Labels with known values are listed with them, and each is published from the beginning, as 0.
A counter never falls, also when a failover has lost commits; one that appears later is 0 once.
Queues beyond the first hundred are summed under `__other__` (of ages the highest counts).

The exporter needs a role that can read these numbers and nothing else:

```sql
CREATE ROLE redrive_exporter LOGIN CONNECTION LIMIT 3 PASSWORD '…';
SELECT redrive.grant_metrics('redrive_exporter');
```

";

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

fn table() -> String {
    let mut text = INTRODUCTION.to_owned();
    text.push_str("| name | type | labels | source | help |\n|---|---|---|---|---|\n");
    for metric in CATALOGUE {
        writeln!(
            text,
            "| `{}` | {} | {} | {} | {} |",
            metric.name,
            kind(metric),
            labels(metric),
            metric.source.as_str(),
            metric.help
        )
        .unwrap();
    }
    text.push_str("\n## Bounds of the histograms\n\nUpper ones, inclusive; `+Inf` comes after the last.\n\n| name | bounds |\n|---|---|\n");
    for metric in CATALOGUE {
        if let Some(bounds) = bounds(metric) {
            writeln!(text, "| `{}` | {bounds} |", metric.name).unwrap();
        }
    }
    text
}

#[test]
fn the_table_of_metrics_is_the_catalogue() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/redrive-exporter/METRICS.md");
    if env::var_os(WRITE).is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, table()).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == table(),
        "{} is not the catalogue's; write it with {WRITE}=1",
        path.display()
    );
}
