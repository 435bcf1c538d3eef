//! Publishes every series with known labels from the start, as 0. Pure.
//!
//! `increase()` ignores the first value of a new series. An alert would therefore miss the first
//! death of a queue if its counter first appeared as 1.

use std::collections::BTreeSet;

use crate::metrics::series::{Key, Series, zero};
use crate::metrics::{CATALOGUE, Metric, MetricKind, Source};

/// Adds zeros for missing series of the `answered` sources.
///
/// Labels take all their predefined values; queues are those found in any metric, and kinds those of counters: the kinds of
/// ready jobs have no limit in time, and a counter is never forgotten.
pub(crate) fn fill(series: &mut Series, answered: &BTreeSet<Source>) {
    let queues = find_values(series, &["queue"], |_| true);
    let is_counter = |metric: &Metric| metric.kind != MetricKind::Gauge;
    let kinds = find_values(series, &["queue", "kind"], is_counter);
    let mut missing = Vec::new();
    for (index, metric) in CATALOGUE.iter().enumerate() {
        if !answered.contains(&metric.source) {
            continue;
        }
        let open: Vec<&str> = open_labels(metric);
        let found;
        let prefixes = match open[..] {
            [] => &BTreeSet::from([Vec::new()]),
            ["queue"] => &queues,
            ["queue", "kind"] => &kinds,
            // Other values, such as tables, apply only to the metric that has them.
            _ => {
                found = find_values(series, &open, |other| other.name == metric.name);
                &found
            }
        };
        for prefix in prefixes {
            for labels in combinations(metric, prefix) {
                missing.push(Key::at(index, labels));
            }
        }
    }
    for key in missing {
        let metric = key.metric();
        series.entry(key).or_insert_with(|| zero(metric));
    }
}

fn open_labels(metric: &Metric) -> Vec<&'static str> {
    let open = metric.labels.iter().filter(|label| label.values.is_empty());
    open.map(|label| label.name).collect()
}

/// Returns the values of these labels in the metrics that have all of them as open labels.
fn find_values(
    series: &Series,
    labels: &[&str],
    of: impl Fn(&Metric) -> bool,
) -> BTreeSet<Vec<String>> {
    let matching = series.keys().filter(|key| {
        let open = open_labels(key.metric());
        of(key.metric()) && labels.iter().all(|label| open.contains(label))
    });
    let values = |key: &Key| -> Vec<String> {
        let values = labels.iter().filter_map(|label| key.label(label));
        values.map(str::to_owned).collect()
    };
    matching.map(values).collect()
}

/// Returns the labels of all series with these values of the open labels. At most the last label is predefined.
fn combinations(metric: &Metric, open: &[String]) -> Vec<Vec<String>> {
    let Some(last) = metric.labels.get(open.len()) else {
        return vec![open.to_vec()];
    };
    let values = last.values.iter();
    let labels = values.map(|&value| [open, &[value.to_owned()]].concat());
    labels.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, labels: &[&str]) -> Key {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        Key::new(name, labels).expect("in the catalogue")
    }

    #[test]
    fn missing_series_are_zero_and_existing_values_stay() {
        let died = key("redrive_jobs_dead_lettered_total", &["mail", "exhausted"]);
        let ready = |kind| key("redrive_queue_ready_jobs_by_kind", &["mail", kind]);
        let attempts = "redrive_job_attempts_failed_total";
        let failed = key(attempts, &["mail", "send", "panic"]);
        let heap = key("redrive_table_bytes", &["jobs", "heap"]);
        let found = [died.clone(), failed, ready("order-4711"), heap];
        let mut series: Series = found.map(|key| (key, vec![3.0])).into();
        fill(&mut series, &Source::DATABASE.into());
        assert_eq!(series[&died], [3.0]);
        let succeeded = "redrive_jobs_succeeded_total";
        for (name, labels) in [
            ("redrive_jobs_dead_lettered_total", &["mail", "timeout"][..]),
            ("redrive_jobs_enqueued_total", &["mail"]),
            (succeeded, &["mail", "send"]),
            (attempts, &["mail", "send", "outage"]),
            ("redrive_queue_ready_jobs_by_kind", &["mail", "send"]),
            ("redrive_dlq_letters", &["mail", "quarantined"]),
            ("redrive_fold_age_seconds", &[]),
            ("redrive_table_bytes", &["jobs", "toast"]),
        ] {
            let value = series.get(&key(name, labels));
            assert_eq!(value, Some(&vec![0.0]), "{name}");
        }
        let waited = key("redrive_job_queue_wait_seconds", &["mail"]);
        assert_eq!(series[&waited], [0.0; 18]);
        // A kind that is only ready, and a metric without this table.
        let uncounted = key(succeeded, &["mail", "order-4711"]);
        let other = key("redrive_table_dead_rows_estimate", &["jobs"]);
        assert!(!series.contains_key(&uncounted) && !series.contains_key(&other));
    }

    #[test]
    fn sources_that_have_not_answered_get_no_series() {
        let mut series = Series::new();
        fill(&mut series, &BTreeSet::new());
        assert_eq!(series, Series::new());
        fill(&mut series, &BTreeSet::from([Source::Operations]));
        assert!(series.contains_key(&key("redrive_runs", &["halted"])));
        assert!(series.keys().all(|key| key.label("queue").is_none()));
    }
}
