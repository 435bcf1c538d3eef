//! Keeps published counters from falling, and starts new ones at 0. Pure.
//!
//! After a failover that lost commits, a counter in the database is lower than before. Prometheus
//! would treat this as a reset to 0 and count the whole value as an increase.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::metrics::series::{Key, Series, zero};
use crate::metrics::{MetricKind, Source, Value};

/// How long a counter that fell stays constant. After that it continues with an offset.
const MAX_HOLD: Duration = Duration::from_mins(5);

/// The published values of the counters and histograms that redrive stores in the database.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guard {
    /// The identity of the database.
    identity: Option<String>,
    /// The sources published before. A series that appears in them later is new and starts at 0.
    published_sources: BTreeSet<Source>,
    tracks: HashMap<Key, Track>,
    regressions: u64,
}

#[derive(Clone, Debug)]
struct Track {
    published: Box<[f64]>,
    /// Added to the values of the database; empty means 0.
    offset: Box<[f64]>,
    lower_since: Option<Instant>,
}

impl Guard {
    /// Resets the guard if the database has changed. Returns whether it has changed.
    pub(crate) fn reset_if_changed(&mut self, identity: &str) -> bool {
        if self.identity.as_deref() == Some(identity) {
            return false;
        }
        let is_changed = self.identity.is_some();
        *self = Guard {
            identity: Some(identity.to_owned()),
            regressions: self.regressions,
            ..Guard::default()
        };
        is_changed
    }

    /// Replaces values that would make a published counter fall, and starts new counters at 0.
    ///
    /// `answered` are the sources that have been read at least once.
    pub(crate) fn apply(&mut self, series: &mut Series, answered: &BTreeSet<Source>, now: Instant) {
        for (key, value) in series.iter_mut().filter(|(key, _)| is_guarded(key)) {
            let read = numbers(value);
            let Some(track) = self.tracks.get_mut(key).filter(|t| t.fits(&read)) else {
                let is_new = self.published_sources.contains(&key.source());
                let published = if is_new {
                    numbers(&zero(key.metric()))
                } else {
                    read
                };
                *value = to_value(key, &published);
                self.tracks.insert(key.clone(), Track::new(published));
                continue;
            };
            self.regressions += u64::from(track.update(&read, now) == Trend::Fell);
            *value = to_value(key, &track.published);
        }
        self.published_sources.extend(answered);
    }

    /// Returns how many times a counter fell.
    pub(crate) fn regressions(&self) -> u64 {
        self.regressions
    }
}

#[derive(Debug, Eq, PartialEq)]
enum Trend {
    NotLower,
    Fell,
    Held,
}

impl Track {
    fn new(published: Vec<f64>) -> Track {
        Track {
            offset: Box::default(),
            published: published.into(),
            lower_since: None,
        }
    }

    fn fits(&self, read: &[f64]) -> bool {
        self.published.len() == read.len()
    }

    fn update(&mut self, read: &[f64], now: Instant) -> Trend {
        let shifted: Vec<f64> = read
            .iter()
            .zip(self.offset.iter().chain(std::iter::repeat(&0.0)))
            .map(|(n, by)| n + by)
            .collect();
        let is_lower = shifted.iter().zip(&self.published).any(|(n, was)| {
            // Floating-point sums differ slightly when added in another order.
            n < was && was - n > was.abs() * 1e-12
        });
        if !is_lower {
            self.lower_since = None;
            for (was, n) in self.published.iter_mut().zip(shifted) {
                *was = was.max(n);
            }
            return Trend::NotLower;
        }
        match self.lower_since {
            None => {
                self.lower_since = Some(now);
                Trend::Fell
            }
            Some(since) if now.saturating_duration_since(since) >= MAX_HOLD => {
                self.lower_since = None;
                self.offset = self
                    .published
                    .iter()
                    .zip(read)
                    .map(|(was, n)| was - n)
                    .collect();
                Trend::Held
            }
            Some(_) => Trend::Held,
        }
    }
}

/// Returns whether a series must not fall.
///
/// Statistics of the server may fall: it resets them after a crash and reports when.
fn is_guarded(key: &Key) -> bool {
    !matches!(key.metric().kind, MetricKind::Gauge)
        && matches!(key.source(), Source::Totals | Source::Operations)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts stay below 2^53, like all Prometheus values"
)]
fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Number(number) => vec![*number],
        Value::Buckets { counts, sum } => {
            let counts = counts.iter().map(|&count| count as f64);
            counts.chain([*sum]).collect()
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the values are counts and sums of counts"
)]
fn to_value(key: &Key, numbers: &[f64]) -> Value {
    match (key.metric().kind, numbers) {
        (MetricKind::Histogram(_), [counts @ .., sum]) => Value::Buckets {
            counts: counts.iter().map(|&count| count as u64).collect(),
            sum: *sum,
        },
        (_, numbers) => Value::Number(numbers.iter().sum()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTER: &str = "redrive_jobs_enqueued_total";
    const HISTOGRAM: &str = "redrive_job_attempts_to_success";

    struct Fixture {
        guard: Guard,
        start: Instant,
    }

    impl Fixture {
        fn new() -> Fixture {
            let mut guard = Guard::default();
            assert!(
                !guard.reset_if_changed("7:1"),
                "the first database is not a change"
            );
            Fixture {
                guard,
                start: Instant::now(),
            }
        }

        fn publish(&mut self, minute: u64, name: &str, queue: &str, value: Value) -> Value {
            let key = Key::new(name, vec![queue.to_owned()]).expect("in the catalogue");
            let mut series = Series::from([(key.clone(), value)]);
            let now = self.start + Duration::from_mins(minute);
            self.guard
                .apply(&mut series, &BTreeSet::from([Source::Totals]), now);
            series.remove(&key).expect("still there")
        }

        fn counter(&mut self, minute: u64, value: f64) -> f64 {
            match self.publish(minute, COUNTER, "a", Value::Number(value)) {
                Value::Number(number) => number,
                Value::Buckets { .. } => f64::NAN,
            }
        }
    }

    #[track_caller]
    fn assert_published(readings: &[(u64, f64, f64)], regressions: u64) {
        let mut fixture = Fixture::new();
        for &(minute, read, published) in readings {
            let found = fixture.counter(minute, read);
            assert!(
                (found - published).abs() < 1e-9,
                "minute {minute}: {found}, expected {published}"
            );
        }
        assert_eq!(fixture.guard.regressions(), regressions);
    }

    #[test]
    fn a_growing_counter_is_published_unchanged() {
        assert_published(&[(0, 10.0, 10.0), (1, 10.0, 10.0), (2, 12.0, 12.0)], 0);
    }

    #[test]
    fn a_counter_that_fell_stays_constant_until_it_catches_up() {
        assert_published(
            &[
                (0, 50.0, 50.0),
                (1, 47.0, 50.0),
                (2, 49.0, 50.0),
                (3, 53.0, 53.0),
            ],
            1,
        );
    }

    #[test]
    fn a_counter_that_does_not_catch_up_continues_with_an_offset() {
        assert_published(
            &[
                (0, 50.0, 50.0),
                (1, 3.0, 50.0),
                (4, 4.0, 50.0),
                (6, 5.0, 50.0),
                (7, 6.0, 51.0),
                (8, 16.0, 61.0),
                // It falls a second time.
                (9, 15.0, 61.0),
                (14, 15.0, 61.0),
                (15, 17.0, 63.0),
            ],
            2,
        );
    }

    #[test]
    fn a_series_that_appears_later_starts_at_zero_once() {
        let mut fixture = Fixture::new();
        fixture.counter(0, 5.0);
        let mut publish =
            |minute, value: f64| fixture.publish(minute, COUNTER, "new", Value::Number(value));
        assert_eq!(publish(1, 3.0), Value::Number(0.0));
        assert_eq!(publish(2, 3.0), Value::Number(3.0));
    }

    #[test]
    fn another_database_resets_the_counters() {
        let mut fixture = Fixture::new();
        fixture.counter(0, 50.0);
        assert!(!fixture.guard.reset_if_changed("7:1"));
        assert!(fixture.guard.reset_if_changed("8:1"));
        assert!((fixture.counter(1, 2.0) - 2.0).abs() < 1e-9);
        assert_eq!(fixture.guard.regressions(), 0);
    }

    #[test]
    fn a_histogram_is_held_as_a_whole() {
        let mut fixture = Fixture::new();
        let buckets = |first: u64, second: u64, sum: f64| {
            let mut counts = vec![0; 11];
            counts[0] = first;
            counts[1] = second;
            Value::Buckets { counts, sum }
        };
        let mut publish = |minute, value| fixture.publish(minute, HISTOGRAM, "a", value);
        publish(0, buckets(10, 5, 20.0));
        let held = publish(1, buckets(11, 4, 19.0));
        assert_eq!(held, buckets(10, 5, 20.0), "one bucket fell");
        assert_eq!(
            publish(6, buckets(11, 4, 19.0)),
            buckets(10, 5, 20.0),
            "the hold ends"
        );
        assert_eq!(
            publish(7, buckets(12, 6, 24.0)),
            buckets(11, 7, 25.0),
            "continues with an offset"
        );
        let regressions = fixture.guard.regressions();
        assert_eq!(regressions, 1, "a histogram counts as one regression");
    }

    #[test]
    fn a_rounding_difference_is_no_regression() {
        let mut fixture = Fixture::new();
        let histogram = |sum| Value::Buckets {
            counts: vec![1; 11],
            sum,
        };
        fixture.publish(0, HISTOGRAM, "a", histogram(0.1 + 0.2 + 0.3));
        let published = fixture.publish(1, HISTOGRAM, "a", histogram(0.3 + 0.2 + 0.1));
        assert_eq!(
            published,
            histogram(0.1 + 0.2 + 0.3),
            "the published sum does not fall"
        );
        assert_eq!(fixture.guard.regressions(), 0);
    }

    #[test]
    fn statistics_of_the_server_may_restart_at_zero() {
        let mut fixture = Fixture::new();
        let name = "redrive_table_rows_inserted_total";
        fixture.publish(0, name, "jobs", Value::Number(9.0));
        let published = fixture.publish(1, name, "jobs", Value::Number(0.0));
        assert_eq!(published, Value::Number(0.0));
    }
}
