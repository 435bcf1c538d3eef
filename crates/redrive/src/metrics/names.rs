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

    fn series_of(name: &str, queue: &str, rest: &[&str], value: f64) -> (Key, Numbers) {
        let labels = std::iter::once(queue).chain(rest.iter().copied());
        let key = Key::new(name, labels.map(str::to_owned).collect()).expect("in the catalogue");
        (key, vec![value])
    }

    fn number(series: &Series, name: &str, queue: &str, rest: &[&str]) -> Option<f64> {
        let (key, _) = series_of(name, queue, rest, 0.0);
        series.get(&key).map(|numbers| numbers[0])
    }

    /// A counter of each queue that the database names.
    fn counters() -> Vec<(Key, Numbers)> {
        let queues = (0..QUEUE_SLOTS).map(|number| format!("q{number}"));
        let counter = |queue: String| series_of("redrive_jobs_enqueued_total", &queue, &[], 1.0);
        queues.map(counter).collect()
    }

    #[test]
    fn queues_beyond_the_limit_are_folded_into_one() {
        let age = "redrive_dlq_oldest_age_seconds";
        let by_kind = "redrive_queue_ready_jobs_by_kind";
        let largest = [
            ("redrive_queue_paused", "none"),
            ("redrive_rate_limit_empty", "__queue__"),
            ("redrive_rate_limit_use_ratio", "__queue__"),
        ];
        let largest_of = |queue| largest.map(|(name, label)| series_of(name, queue, &[label], 1.0));
        let mut found = counters();
        found.extend([
            series_of(age, "late", &["retry"], 30.0),
            series_of(age, "later", &["retry"], 20.0),
            series_of(age, "q7", &["retry"], 5.0),
            series_of(by_kind, "late", &["resize"], 6.0),
            series_of(by_kind, "later", &["convert"], 7.0),
        ]);
        found.extend(["late", "later"].into_iter().flat_map(largest_of));
        let (series, has_folded) = fold(found);
        assert!(has_folded);
        for (name, label) in largest {
            assert_eq!(number(&series, name, OTHER, &[label]), Some(1.0), "{name}");
        }
        // Counts are summed, those of kinds too, and ages keep the maximum.
        assert_eq!(number(&series, by_kind, OTHER, &[OTHER]), Some(13.0));
        assert_eq!(number(&series, age, OTHER, &["retry"]), Some(30.0));
        assert_eq!(number(&series, age, "q7", &["retry"]), Some(5.0));
    }

    #[test]
    fn a_queue_without_counters_takes_a_place_that_is_left() {
        let unhandled = "redrive_queue_unhandled_jobs";
        for (counted, is_named) in [(QUEUE_SLOTS - 1, true), (QUEUE_SLOTS, false)] {
            let mut found = counters();
            found.truncate(counted);
            found.push(series_of(unhandled, "early", &[], 1.0));
            let (series, has_folded) = fold(found);
            assert_eq!(has_folded, !is_named);
            let name = if is_named { "early" } else { OTHER };
            assert_eq!(number(&series, unhandled, name, &[]), Some(1.0));
        }
    }
}
