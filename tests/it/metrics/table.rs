//! The table of metrics in the documentation matches the catalogue.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use redrive::metrics::{CATALOGUE, Metric, MetricKind};

/// If set, the test writes the table instead.
const WRITE: &str = "REDRIVE_WRITE_METRICS";

const INTRODUCTION: &str = "\
# Metrics

Every metric that redrive publishes, from `redrive-exporter` or from
`redrive::metrics::MetricsCollector` in your program.
This page is generated from the catalogue in `crates/redrive/src/metrics/catalogue.rs`.
To regenerate it, run `REDRIVE_WRITE_METRICS=1 cargo nextest run -p redrive-tests the_metrics_page_matches_the_catalogue`.

The *source* is the value of the label `collector` of `redrive_collector_success` and related metrics.
Sources are read separately. If one fails, its last good values stay published for 5 minutes after it should have been
read again, and then disappear. Without totals, queues, letters or operations, `redrive_up` is 0.
Known label values are listed, and each of their series exists from the start with the value 0.
Counters never fall, not even after a failover that lost commits. A counter that appears later starts at 0.
Queues beyond the first hundred are summed under `__other__` (ages take the maximum).

The exporter needs a role that can read these metrics and nothing else:

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
    text.push_str("\n## Bounds of the histograms\n\nUpper bounds, inclusive. `+Inf` follows the last one.\n\n| name | bounds |\n|---|---|\n");
    for metric in CATALOGUE {
        if let Some(bounds) = bounds(metric) {
            writeln!(text, "| `{}` | {bounds} |", metric.name).unwrap();
        }
    }
    text
}

#[test]
fn the_metrics_page_matches_the_catalogue() {
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
