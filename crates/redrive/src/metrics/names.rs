//! Names: which queues are published by name, and what the others are summed under. Pure.

use std::collections::BTreeSet;

use crate::metrics::series::{Key, Series};
use crate::metrics::{MetricKind, OTHER, QUEUE_SLOTS, Value};

/// The queues that are published by name: the first ones that were seen, for as long as this lives.
/// A top hundred that changes would make counters fall.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    known: BTreeSet<String>,
    /// Queues that came too late.
    beyond: BTreeSet<String>,
}

/// How many names beyond the limit are remembered, only to count them.
const MOST_BEYOND: usize = 10_000;

impl Names {
    /// Puts series together, those of queues beyond the limit under one name.
    pub(crate) fn fold(&mut self, answered: impl IntoIterator<Item = (Key, Value)>) -> Series {
        let mut series = Series::new();
        for (key, value) in answered {
            let key = match key.label("queue") {
                Some(queue) if !self.has_place(queue) => key.with_label("queue", OTHER),
                Some(_) | None => key,
            };
            match series.get_mut(&key) {
                Some(there) => merge(&key, there, value),
                None => {
                    series.insert(key, value);
                }
            }
        }
        series
    }

    /// How many queues are summed under one name.
    pub(crate) fn beyond(&self) -> usize {
        self.beyond.len()
    }

    fn has_place(&mut self, queue: &str) -> bool {
        if queue == OTHER || self.known.contains(queue) {
            return true;
        }
        if self.known.len() < QUEUE_SLOTS {
            self.known.insert(queue.to_owned());
            return true;
        }
        if self.beyond.len() < MOST_BEYOND && !self.beyond.contains(queue) {
            self.beyond.insert(queue.to_owned());
        }
        false
    }
}

/// Adds a value to that of the same series; of ages, times and flags the highest counts.
fn merge(key: &Key, there: &mut Value, more: Value) {
    let metric = key.metric();
    let is_highest = matches!(metric.kind, MetricKind::Gauge)
        && (metric.name.ends_with("_seconds") || metric.name.ends_with("_capped"));
    match (there, more) {
        (Value::Number(number), Value::Number(more)) if is_highest => *number = number.max(more),
        (Value::Number(number), Value::Number(more)) => *number += more,
        (
            Value::Buckets { counts, sum },
            Value::Buckets {
                counts: more,
                sum: more_sum,
            },
        ) => {
            for (count, more) in counts.iter_mut().zip(more) {
                *count += more;
            }
            *sum += more_sum;
        }
        // A metric has one kind of value.
        (Value::Number(_), Value::Buckets { .. }) | (Value::Buckets { .. }, Value::Number(_)) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, queue: &str, rest: &[&str], value: f64) -> (Key, Value) {
        let labels = std::iter::once(queue).chain(rest.iter().copied());
        let key = Key::new(name, labels.map(str::to_owned).collect()).expect("in the catalogue");
        (key, Value::Number(value))
    }

    fn number(series: &Series, name: &str, queue: &str) -> Option<f64> {
        let (key, _) = of(name, queue, &[], 0.0);
        match series.get(&key) {
            Some(Value::Number(number)) => Some(*number),
            Some(Value::Buckets { .. }) | None => None,
        }
    }

    #[test]
    fn queues_beyond_the_limit_are_one() {
        let mut names = Names::default();
        let first =
            (0..QUEUE_SLOTS).map(|n| of("redrive_jobs_enqueued_total", &format!("q{n}"), &[], 1.0));
        assert_eq!(names.fold(first).len(), QUEUE_SLOTS);

        let (counter, age) = (
            "redrive_jobs_enqueued_total",
            "redrive_dlq_oldest_age_seconds",
        );
        let series = names.fold([
            of(counter, "late", &[], 2.0),
            of(counter, "later", &[], 3.0),
            of(counter, "q7", &[], 5.0),
            of(age, "late", &[], 30.0),
            of(age, "later", &[], 20.0),
        ]);
        assert_eq!(
            number(&series, counter, OTHER),
            Some(5.0),
            "counts are summed"
        );
        assert_eq!(
            number(&series, age, OTHER),
            Some(30.0),
            "of ages the highest"
        );
        assert_eq!(number(&series, counter, "q7"), Some(5.0), "a name is kept");
        assert_eq!(names.beyond(), 2);
    }

    #[test]
    fn histograms_are_summed_bucket_by_bucket() {
        let mut names = Names {
            known: (0..QUEUE_SLOTS).map(|n| format!("q{n}")).collect(),
            beyond: BTreeSet::new(),
        };
        let one = |queue: &str| {
            let key = Key::new("redrive_job_attempts_to_success", vec![queue.to_owned()]);
            let mut counts = vec![0; 11];
            counts[1] = 2;
            (
                key.expect("in the catalogue"),
                Value::Buckets { counts, sum: 4.0 },
            )
        };
        let series = names.fold([one("late"), one("later")]);
        let mut counts = vec![0; 11];
        counts[1] = 4;
        let values: Vec<_> = series.into_values().collect();
        assert_eq!(values, [Value::Buckets { counts, sum: 8.0 }]);
    }
}
