//! The page of metrics, from the catalogue.

use redrive::metrics::{CATALOGUE, Metric, MetricKind};

use super::Generated;

const FILE: &str = "crates/redrive-exporter/METRICS.md";

const INTRODUCTION: &str = "\
# Metrics

Every metric that redrive publishes, from `redrive-exporter` or from
`redrive::metrics::MetricsCollector` in your program.
This page is generated from the catalogue in `crates/redrive/src/metrics/catalogue.rs`.
To regenerate it, run `cargo xtask generate`.

The *source* is the value of the label `collector` of `redrive_collector_success` and related metrics.
Sources are read separately. If one fails, its last good values stay published for 5 minutes after it should have been
read again, and then disappear. Without totals, queues, letters or operations, `redrive_up` is 0.
Known label values are listed, and each of their series exists from the start with the value 0.
Counters never fall, not even after a failover that lost commits, a restore, or a move to another database: they
stand still or continue from their last value, and `redrive_totals_regressions_total` counts those that fell in the
database. Two things end this. A new process of the exporter knows no last values, so if it starts after such a fall,
Prometheus sees a reset and counts the whole history of each counter as new; expect false alerts about deaths then.
Counters of tables are statistics of the server, which a crash resets to 0.
A counter that appears later is 0 for a minute, so that `increase()` sees its first events.
Queues beyond the first hundred that ever were are summed under `__other__` (ages take the maximum), and alerts see them
as one queue; `redrive_series_folded` counts them.

The exporter needs a role that can read these metrics and nothing else:

```sql
CREATE ROLE redrive_exporter LOGIN CONNECTION LIMIT 3 PASSWORD '…';
SELECT redrive.grant_role('redrive_exporter', 'exporter');
```

The second statement returns what it could not do. Without `pg_monitor`, which a superuser grants, the source *server*
cannot be read, because the sessions of other roles would be missing from its numbers.

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

/// Returns the page.
pub(super) fn generated() -> Generated {
    let mut text = INTRODUCTION.to_owned();
    text.push_str("| name | type | labels | source | help |\n|---|---|---|---|---|\n");
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
    Generated { file: FILE, text }
}
