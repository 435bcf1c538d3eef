//! Keeps published counters from falling, and starts new ones at 0. Pure.
//!
//! After a failover that lost commits or a restore, a counter in the database is lower than before.
//! Prometheus would treat this as a reset to 0 and count the whole value as an increase.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::metrics::series::{Key, Numbers, Series, zero};
use crate::metrics::{MetricKind, Source};

/// How long a new counter is 0. Each Prometheus of a pair reads that, whatever else reads meanwhile,
/// such as a readiness probe.
const START: Duration = Duration::from_mins(1);

/// The published values of the counters and histograms that redrive stores in the database.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guard {
    /// The sources published before. A series that appears in them later is new and starts at 0.
    published_sources: BTreeSet<Source>,
    tracks: HashMap<Key, Track>,
    /// How many times a counter fell.
    pub(crate) regressions: u32,
}

#[derive(Clone, Debug)]
struct Track {
    read: Numbers,
    published: Numbers,
    new_since: Option<Instant>,
}

impl Guard {
    /// Replaces values that would make a published counter fall, and starts new counters at 0.
    ///
    /// `answered` are the sources that have been read at least once.
    pub(crate) fn apply(&mut self, series: &mut Series, answered: &BTreeSet<Source>, now: Instant) {
        let is_counter = |key: &Key| key.metric().kind != MetricKind::Gauge;
        for (key, value) in series.iter_mut().filter(|(key, _)| is_counter(key)) {
            let is_new = self.published_sources.contains(&key.source());
            let track = self.tracks.entry(key.clone()).or_insert_with(|| {
                let first = match is_new {
                    true => zero(key.metric()),
                    false => value.clone(),
                };
                Track {
                    read: first.clone(),
                    published: first,
                    new_since: is_new.then_some(now),
                }
            });
            let is_old = |since| now.saturating_duration_since(since) >= START;
            let has_fallen = track.new_since.is_none_or(is_old) && track.update(value);
            self.regressions += u32::from(has_fallen);
            value.clone_from(&track.published);
        }
        self.published_sources.extend(answered);
    }
}

impl Track {
    /// Publishes what was added since the last reading. Returns whether the values have fallen instead.
    fn update(&mut self, read: &[f64]) -> bool {
        let mut both = read.iter().zip(&self.read);
        // Floating-point sums differ slightly when added in another order.
        let has_fallen = both.any(|(n, was)| n < was && was - n > was.abs() * 1e-12);
        if !has_fallen {
            let added = read.iter().zip(&self.read).map(|(n, was)| n - was);
            for (number, more) in self.published.iter_mut().zip(added) {
                *number += more.max(0.0);
            }
        }
        self.read = read.to_vec();
        has_fallen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTER: &str = "redrive_jobs_enqueued_total";
    const HISTOGRAM: &str = "redrive_job_attempts_to_success";

    /// A guard, and when its first reading was.
    struct Fixture(Guard, Instant);

    impl Fixture {
        fn new() -> Fixture {
            Fixture(Guard::default(), Instant::now())
        }

        fn publish(&mut self, minute: u64, name: &str, queue: &str, value: Numbers) -> Numbers {
            let key = Key::new(name, vec![queue.to_owned()]).expect("in the catalogue");
            let mut series = Series::from([(key.clone(), value)]);
            let now = self.1 + Duration::from_mins(minute);
            let read = BTreeSet::from([Source::Totals]);
            self.0.apply(&mut series, &read, now);
            series.remove(&key).expect("still there")
        }
    }

    #[test]
    fn a_counter_that_fell_continues_from_its_last_value() {
        let mut fixture = Fixture::new();
        for (read, published, regressions) in [
            (10_u32, 10_u32, 0),
            (10, 10, 0),
            (12, 12, 0),
            (7, 12, 1),
            (9, 14, 1),
            (8, 14, 2),
            (20, 26, 2),
        ] {
            let found = fixture.publish(0, COUNTER, "a", vec![f64::from(read)]);
            assert_eq!(found, [f64::from(published)], "{read}");
            assert_eq!(fixture.0.regressions, regressions, "{read}");
        }
    }

    #[test]
    fn a_series_that_appears_later_is_zero_for_a_minute() {
        let mut fixture = Fixture::new();
        fixture.publish(0, COUNTER, "a", vec![5.0]);
        let mut publish = |minute, value: f64| fixture.publish(minute, COUNTER, "new", vec![value]);
        assert_eq!(publish(1, 3.0), [0.0]);
        assert_eq!(publish(1, 4.0), [0.0], "for another reader");
        assert_eq!(publish(2, 4.0), [4.0]);
    }

    #[test]
    fn a_histogram_continues_as_a_whole() {
        let mut fixture = Fixture::new();
        let buckets = |[first, second, sum]: [f64; 3]| {
            let mut numbers = vec![0.0; 12];
            (numbers[0], numbers[1], numbers[11]) = (first, second, sum);
            numbers
        };
        let before = [10.0, 5.0, 20.0];
        for (read, published) in [
            (before, before),
            // One bucket fell.
            ([11.0, 4.0, 19.0], before),
            ([12.0, 6.0, 24.0], [11.0, 7.0, 25.0]),
        ] {
            let found = fixture.publish(0, HISTOGRAM, "a", buckets(read));
            assert_eq!(found, buckets(published));
        }
        assert_eq!(fixture.0.regressions, 1, "as a whole");
    }

    #[test]
    fn a_rounding_difference_is_no_regression() {
        let mut fixture = Fixture::new();
        let histogram = |sum| [vec![1.0; 11], vec![sum]].concat();
        fixture.publish(0, HISTOGRAM, "a", histogram(0.1 + 0.2 + 0.3));
        let published = fixture.publish(1, HISTOGRAM, "a", histogram(0.3 + 0.2 + 0.1));
        let before = histogram(0.1 + 0.2 + 0.3);
        assert_eq!(published, before, "the published sum does not fall");
        assert_eq!(fixture.0.regressions, 0);
    }
}
