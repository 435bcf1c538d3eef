//! Limits the number of queues published by name and sums the others. Pure.

use std::collections::BTreeSet;

use crate::metrics::series::{Key, Numbers, Series, zero};
use crate::metrics::{Metric, MetricKind, OTHER, Source};

/// The maximum number of queues published by name.
const QUEUE_SLOTS: usize = 100;

/// Sums the series of queues beyond the limit, with their kinds, under [`OTHER`]. Returns also whether there are any.
///
/// The database names the queues of counters, and keeps their names: counters would fall if the set changed. Other queues
/// take the places that it has left. Once there is none, they have no name: with jobs under its name and no claims, a
/// queue would look as if it stalled.
pub(crate) fn fold(series: Vec<(Key, Numbers)>) -> (Series, bool) {
    let queues = series.iter().filter_map(|(key, _)| {
        let queue = key.label("queue").filter(|queue| *queue != OTHER)?;
        Some((key.source() != Source::Totals, queue))
    });
    let mut named = BTreeSet::new();
    // Those of counters come first.
    for (_, queue) in queues.collect::<BTreeSet<_>>() {
        if named.len() < QUEUE_SLOTS {
            named.insert(queue.to_owned());
        }
    }
    let (mut result, mut has_folded) = (Series::new(), false);
    for (mut key, value) in series {
        let queue = key.label("queue");
        if queue.is_some_and(|queue| queue != OTHER && !named.contains(queue)) {
            has_folded = true;
            key.set_label("queue", OTHER);
            key.set_label("kind", OTHER);
        }
        let metric = key.metric();
        let total = result.entry(key).or_insert_with(|| zero(metric));
        merge(metric, total, value);
    }
    (result, has_folded)
}

/// The ends of the names of gauges that are ages, times, ratios or flags.
const KEEP_MAXIMUM: [&str; 5] = ["_seconds", "_capped", "_paused", "_empty", "_ratio"];

/// Adds a value to a total. Ages, times, ratios and flags keep the maximum instead of the sum.
fn merge(metric: &Metric, total: &mut [f64], value: Numbers) {
    let keeps_maximum = matches!(metric.kind, MetricKind::Gauge)
        && KEEP_MAXIMUM.iter().any(|end| metric.name.ends_with(end));
    for (number, more) in total.iter_mut().zip(value) {
        *number = match keeps_maximum {
            true => number.max(more),
            false => *number + more,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::series::gauge;

    /// A value of a series, which is written as `name queue label`, without its prefix.
    fn one(series: &str, value: f64) -> (Key, Numbers) {
        let mut words = series.split(' ');
        let name = format!("redrive_{}", words.next().unwrap_or_default());
        let labels: Vec<&str> = words.collect();
        gauge(&name, &labels, value).expect("in the catalogue")
    }

    #[test]
    fn queues_beyond_the_limit_are_folded_into_one() {
        // The database names some queues by their counters. Counts are summed, and others keep the maximum.
        for (counted, jobs_of, of_two) in [(QUEUE_SLOTS, "__other__", 13.0), (99, "late", 6.0)] {
            let counter = |number| one(&format!("jobs_enqueued_total q{number}"), 1.0);
            let mut found: Vec<_> = (0..counted).map(counter).collect();
            let read = [
                ("dlq_oldest_age_seconds q7 retry", 5.0),
                ("queue_unhandled_jobs late", 6.0),
                ("queue_unhandled_jobs later", 7.0),
                ("queue_ready_jobs_by_kind later resize", 6.0),
                ("queue_ready_jobs_by_kind later2 convert", 7.0),
                ("dlq_oldest_age_seconds later retry", 30.0),
                ("dlq_oldest_age_seconds later2 retry", 20.0),
                ("queue_paused later none", 1.0),
                ("queue_paused later2 none", 1.0),
                ("rate_limit_empty later __queue__", 1.0),
                ("rate_limit_empty later2 __queue__", 1.0),
                ("rate_limit_use_ratio later __queue__", 1.0),
                ("rate_limit_use_ratio later2 __queue__", 1.0),
            ];
            found.extend(read.map(|(series, value)| one(series, value)));
            let (series, has_folded) = fold(found);
            assert!(has_folded);
            for (name, value) in [
                ("dlq_oldest_age_seconds q7 retry", 5.0),
                (&*format!("queue_unhandled_jobs {jobs_of}"), of_two),
                ("queue_ready_jobs_by_kind __other__ __other__", 13.0),
                ("dlq_oldest_age_seconds __other__ retry", 30.0),
                ("queue_paused __other__ none", 1.0),
                ("rate_limit_empty __other__ __queue__", 1.0),
                ("rate_limit_use_ratio __other__ __queue__", 1.0),
            ] {
                let found = series.get(&one(name, 0.0).0);
                assert_eq!(found, Some(&vec![value]), "{name}, {counted}");
            }
        }
        let (_, has_folded) = fold(vec![one("queue_unhandled_jobs early", 1.0)]);
        assert!(!has_folded);
    }
}
