//! Limits the number of queues published by name and sums the others. Pure.

use std::collections::BTreeSet;

use crate::metrics::series::{Key, Numbers, Series};
use crate::metrics::{MetricKind, OTHER, QUEUE_SLOTS, Source};

/// The queues published by name.
///
/// The first queues seen keep their names: counters would fall if the set changed. The database names the queues of
/// counters in the same way. Once it has no name left, its queues are the named ones. Another one would have jobs under
/// its name and no claims, like a queue that stalls.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueueNames {
    named: BTreeSet<String>,
    /// Whether the latest reading had queues beyond the limit.
    has_folded: bool,
}

impl QueueNames {
    /// Collects series and sums those of queues beyond the limit, with their kinds, under [`OTHER`].
    pub(crate) fn fold(&mut self, series: impl IntoIterator<Item = (Key, Numbers)>) -> Series {
        let series: Vec<(Key, Numbers)> = series.into_iter().collect();
        let totals = series
            .iter()
            .filter(|(key, _)| key.source() == Source::Totals);
        let queues = totals.filter_map(|(key, _)| key.label("queue"));
        let counted: BTreeSet<&str> = queues.filter(|queue| *queue != OTHER).collect();
        if counted.len() == QUEUE_SLOTS {
            self.named = counted.into_iter().map(str::to_owned).collect();
        }
        self.has_folded = false;
        let mut result = Series::new();
        for (key, value) in series {
            let key = match key.label("queue") {
                Some(queue) if !self.admit(queue) => {
                    key.with_label("queue", OTHER).with_label("kind", OTHER)
                }
                Some(_) | None => key,
            };
            match result.get_mut(&key) {
                Some(total) => merge(&key, total, value),
                None => {
                    result.insert(key, value);
                }
            }
        }
        result
    }

    /// Returns whether queues of the latest reading were summed under [`OTHER`].
    pub(crate) fn has_folded(&self) -> bool {
        self.has_folded
    }

    /// Returns whether the queue is published by name, and adds it if there is room.
    fn admit(&mut self, queue: &str) -> bool {
        if queue == OTHER || self.named.contains(queue) {
            return true;
        }
        if self.named.len() < QUEUE_SLOTS {
            self.named.insert(queue.to_owned());
            return true;
        }
        self.has_folded = true;
        false
    }
}

/// The ends of the names of gauges that are ages, times, ratios or flags.
const KEEP_MAXIMUM: [&str; 5] = ["_seconds", "_capped", "_paused", "_empty", "_ratio"];

/// Adds a value to a total. Ages, times, ratios and flags keep the maximum instead of the sum.
fn merge(key: &Key, total: &mut [f64], value: Numbers) {
    let metric = key.metric();
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

    #[test]
    fn queues_beyond_the_limit_are_folded_into_one() {
        let mut names = QueueNames::default();
        let counter = "redrive_jobs_enqueued_total";
        let age = "redrive_dlq_oldest_age_seconds";
        let by_kind = "redrive_queue_ready_jobs_by_kind";
        let first = (0..QUEUE_SLOTS).map(|n| series_of(counter, &format!("q{n}"), &[], 1.0));
        assert_eq!(names.fold(first).len(), QUEUE_SLOTS);
        let largest = [
            ("redrive_queue_paused", "none"),
            ("redrive_rate_limit_empty", "__queue__"),
            ("redrive_rate_limit_use_ratio", "__queue__"),
        ];
        let largest_of = |queue| largest.map(|(name, label)| series_of(name, queue, &[label], 1.0));
        let found = [
            series_of(counter, "late", &[], 2.0),
            series_of(counter, "later", &[], 3.0),
            series_of(counter, "q7", &[], 5.0),
            series_of(age, "late", &["retry"], 30.0),
            series_of(age, "later", &["retry"], 20.0),
            series_of(by_kind, "late", &["resize"], 6.0),
            series_of(by_kind, "later", &["convert"], 7.0),
        ];
        let largest_ones = ["late", "later"].into_iter().flat_map(largest_of);
        let series = names.fold(found.into_iter().chain(largest_ones));
        for (name, label) in largest {
            assert_eq!(number(&series, name, OTHER, &[label]), Some(1.0), "{name}");
        }
        let other = |key: &Key| *key.labels == [OTHER.to_owned(), OTHER.to_owned()];
        let folded = series.iter().find(|(key, _)| other(key));
        let kinds = folded.map(|(_, value)| value);
        assert_eq!(kinds, Some(&vec![13.0]), "kinds are summed, too");
        // Counts are summed, and ages keep the maximum.
        assert_eq!(number(&series, counter, OTHER, &[]), Some(5.0));
        assert_eq!(number(&series, age, OTHER, &["retry"]), Some(30.0));
        assert_eq!(number(&series, counter, "q7", &[]), Some(5.0), "its name");
        assert!(names.has_folded());
    }

    #[test]
    fn a_queue_whose_counters_have_no_name_has_none() {
        let mut names = QueueNames::default();
        let unhandled = "redrive_queue_unhandled_jobs";
        let early = || series_of(unhandled, "early", &[], 1.0);
        let series = names.fold([early()]);
        assert_eq!(number(&series, unhandled, "early", &[]), Some(1.0));
        let counted = (0..QUEUE_SLOTS)
            .map(|n| series_of("redrive_jobs_enqueued_total", &format!("q{n}"), &[], 1.0));
        let series = names.fold(counted.chain([early()]));
        assert_eq!(number(&series, unhandled, "early", &[]), None);
        assert_eq!(number(&series, unhandled, OTHER, &[]), Some(1.0));
    }

    #[test]
    fn histograms_are_summed_bucket_by_bucket() {
        let mut names = QueueNames {
            named: (0..QUEUE_SLOTS).map(|n| format!("q{n}")).collect(),
            has_folded: false,
        };
        let one = |queue: &str| {
            let key = Key::new("redrive_job_attempts_to_success", vec![queue.to_owned()]);
            (
                key.expect("in the catalogue"),
                [vec![2.0; 11], vec![4.0]].concat(),
            )
        };
        let series = names.fold([one("late"), one("later")]);
        let values: Vec<_> = series.into_values().collect();
        assert_eq!(values, [[vec![4.0; 11], vec![8.0]].concat()]);
    }
}
