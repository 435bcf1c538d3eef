//! Zeros: every series whose labels are known is there from the beginning. Pure.
//!
//! A counter that is born at 1 has not grown, as far as `increase()` can tell; and the first death
//! of a queue is the one that matters.

use std::collections::BTreeSet;

use crate::metrics::series::{Key, Series, zero};
use crate::metrics::{CATALOGUE, Metric, Source};

/// Adds a zero for each series that is missing: for the known values of labels, and for every queue
/// and kind that has been seen in any metric. Only of the sources that have ever answered.
pub(crate) fn fill(series: &mut Series, answered: &BTreeSet<Source>) {
    let queues = seen(series, &["queue"]);
    let kinds = seen(series, &["queue", "kind"]);
    let mut missing = Vec::new();
    for (place, metric) in CATALOGUE.iter().enumerate() {
        if !answered.contains(&metric.source) {
            continue;
        }
        let open: Vec<&str> = open_labels(metric);
        let own;
        let prefixes = match open[..] {
            [] => &BTreeSet::from([Vec::new()]),
            ["queue"] => &queues,
            ["queue", "kind"] => &kinds,
            // Whatever else is not known beforehand, such as tables: those that it has.
            _ => {
                own = seen_in(series, metric, &open);
                &own
            }
        };
        for prefix in prefixes {
            for labels in combinations(metric, prefix) {
                missing.push(Key::at(place, labels));
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

/// The values of these labels in any metric that has all of them, and leaves them open.
fn seen(series: &Series, labels: &[&str]) -> BTreeSet<Vec<String>> {
    let having = series.keys().filter(|key| {
        let open = open_labels(key.metric());
        labels.iter().all(|label| open.contains(label))
    });
    having.filter_map(|key| values(key, labels)).collect()
}

fn seen_in(series: &Series, metric: &Metric, labels: &[&str]) -> BTreeSet<Vec<String>> {
    let own = series.keys().filter(|key| key.metric().name == metric.name);
    own.filter_map(|key| values(key, labels)).collect()
}

fn values(key: &Key, labels: &[&str]) -> Option<Vec<String>> {
    let values = labels
        .iter()
        .map(|label| key.label(label).map(str::to_owned));
    values.collect()
}

/// Every combination of the known values, with these for the open labels.
fn combinations(metric: &Metric, open: &[String]) -> Vec<Vec<String>> {
    let mut open = open.iter();
    let mut all = vec![Vec::new()];
    for label in metric.labels {
        let values: Vec<String> = if label.values.is_empty() {
            open.next().cloned().into_iter().collect()
        } else {
            label.values.iter().map(|&value| value.to_owned()).collect()
        };
        all = all
            .iter()
            .flat_map(|labels| {
                values.iter().map(|value| {
                    let mut labels = labels.clone();
                    labels.push(value.clone());
                    labels
                })
            })
            .collect();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Value;

    fn key(name: &str, labels: &[&str]) -> Key {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        Key::new(name, labels).expect("in the catalogue")
    }

    #[test]
    fn what_is_known_is_there_and_what_was_counted_stays() {
        let died = key("redrive_jobs_dead_lettered_total", &["mail", "exhausted"]);
        let failed = key(
            "redrive_job_attempts_failed_total",
            &["mail", "send", "panic"],
        );
        let mut series = Series::from([
            (died.clone(), Value::Number(3.0)),
            (failed, Value::Number(1.0)),
        ]);
        fill(&mut series, &BTreeSet::from([Source::Totals]));
        assert_eq!(series[&died], Value::Number(3.0));
        for (name, labels) in [
            ("redrive_jobs_dead_lettered_total", &["mail", "timeout"][..]),
            ("redrive_jobs_enqueued_total", &["mail"]),
            ("redrive_jobs_succeeded_total", &["mail", "send"]),
            (
                "redrive_job_attempts_failed_total",
                &["mail", "send", "outage"],
            ),
            ("redrive_dlq_letters", &["mail", "quarantined"]),
            ("redrive_fold_age_seconds", &[]),
        ] {
            assert_eq!(
                series.get(&key(name, labels)),
                Some(&Value::Number(0.0)),
                "{name}"
            );
        }
        let waited = key("redrive_job_queue_wait_seconds", &["mail"]);
        let nothing = Value::Buckets {
            counts: vec![0; 17],
            sum: 0.0,
        };
        assert_eq!(series[&waited], nothing);
    }

    #[test]
    fn what_is_not_known_is_not_made_up() {
        let mut series = Series::new();
        fill(&mut series, &BTreeSet::new());
        assert_eq!(series, Series::new(), "no source has answered");

        fill(&mut series, &Source::DATABASE.into());
        assert!(series.keys().all(|key| key.label("queue").is_none()));
        assert!(series.contains_key(&key("redrive_runs", &["halted"])));

        let heap = key("redrive_table_bytes", &["jobs", "heap"]);
        series.insert(heap, Value::Number(8192.0));
        fill(&mut series, &Source::DATABASE.into());
        assert!(series.contains_key(&key("redrive_table_bytes", &["jobs", "toast"])));
        let other = key("redrive_table_dead_rows_estimate", &["jobs"]);
        assert!(
            !series.contains_key(&other),
            "a table is known where it was told"
        );
    }
}
