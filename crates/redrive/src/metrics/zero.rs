//! Publishes every series with known labels from the start, as 0. Pure.
//!
//! `increase()` ignores the first value of a new series. An alert would therefore miss the first
//! death of a queue if its counter first appeared as 1.

use std::collections::BTreeSet;

use crate::metrics::catalogue::{KIND, QUEUE};
use crate::metrics::series::{Key, Series, zero};
use crate::metrics::{CATALOGUE, Metric, MetricKind, Source};

/// Adds zeros for missing series of the `answered` sources.
///
/// A predefined label, which is the last one, takes all its values; queues are those found in any metric, and kinds those
/// of counters: the kinds of ready jobs have no limit in time, and a counter is never forgotten.
pub(crate) fn fill(series: &mut Series, answered: &BTreeSet<Source>) {
    // The values of the first labels of some metrics.
    let found = |labels: usize, is_one: &dyn Fn(&Metric) -> bool| -> BTreeSet<Vec<String>> {
        let keys = series.keys().filter(|key| is_one(key.metric()));
        keys.map(|key| key.labels[..labels].to_vec()).collect()
    };
    let queues = found(1, &|metric| metric.labels.starts_with(&[QUEUE]));
    let kinds = found(2, &|metric| {
        metric.kind != MetricKind::Gauge && metric.labels.starts_with(&[QUEUE, KIND])
    });
    let mut missing = Vec::new();
    for (index, metric) in CATALOGUE.iter().enumerate() {
        if !answered.contains(&metric.source) {
            continue;
        }
        let (open, last) = match metric.labels {
            [open @ .., last] if !last.values.is_empty() => (open, last.values),
            open => (open, &[][..]),
        };
        let own;
        let prefixes = match open {
            [] => &BTreeSet::from([Vec::new()]),
            [QUEUE] => &queues,
            [QUEUE, KIND] => &kinds,
            // Other values, such as tables, apply only to the metric that has them.
            _ => {
                own = found(open.len(), &|other| other.name == metric.name);
                &own
            }
        };
        for prefix in prefixes {
            let with = |value: &&str| [&prefix[..], &[(*value).to_owned()]].concat();
            let labels = match last {
                [] => vec![prefix.clone()],
                values => values.iter().map(with).collect(),
            };
            missing.extend(labels.into_iter().map(|labels| Key::at(index, labels)));
        }
    }
    for key in missing {
        let metric = key.metric();
        series.entry(key).or_insert_with(|| zero(metric));
    }
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
}
