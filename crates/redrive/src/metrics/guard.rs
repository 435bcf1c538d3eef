//! The guard: what was published of a counter never falls, and begins at 0. Pure.
//!
//! After a failover that lost commits a counter of the database is lower than before. Prometheus
//! would take that for a restart from 0, and find an increase of all there ever was.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::metrics::series::{Key, Series, zero};
use crate::metrics::{MetricKind, Source, Value};

/// For how long a counter that fell stands still. Then it goes on from where it stood.
const PATIENCE: Duration = Duration::from_mins(5);

/// What was published of the counters and histograms that the database keeps itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guard {
    /// Which database; another one begins anew.
    identity: Option<String>,
    /// The sources whose series were published before: what is new among them is just born.
    begun: BTreeSet<Source>,
    tracks: HashMap<Key, Track>,
    regressions: u64,
}

#[derive(Clone, Debug)]
struct Track {
    published: Box<[f64]>,
    /// What is added to the numbers of the database; empty: nothing.
    offset: Box<[f64]>,
    lower_since: Option<Instant>,
}

impl Guard {
    /// Begins anew when this is another database; answers whether it is.
    pub(crate) fn watch(&mut self, identity: &str) -> bool {
        if self.identity.as_deref() == Some(identity) {
            return false;
        }
        let is_another = self.identity.is_some();
        *self = Guard {
            identity: Some(identity.to_owned()),
            regressions: self.regressions,
            ..Guard::default()
        };
        is_another
    }

    /// Replaces what must not be published by what may be. `answered`: the sources that have ever
    /// answered.
    pub(crate) fn pass(&mut self, series: &mut Series, answered: &BTreeSet<Source>, now: Instant) {
        for (key, value) in series.iter_mut().filter(|(key, _)| is_guarded(key)) {
            let read = numbers(value);
            let Some(track) = self.tracks.get_mut(key).filter(|t| t.fits(&read)) else {
                let is_born = self.begun.contains(&key.source());
                let published = if is_born {
                    numbers(&zero(key.metric()))
                } else {
                    read
                };
                *value = rebuilt(key, &published);
                self.tracks.insert(key.clone(), Track::new(published));
                continue;
            };
            self.regressions += u64::from(track.follow(&read, now) == Followed::Fell);
            *value = rebuilt(key, &track.published);
        }
        self.begun.extend(answered);
    }

    /// How often a counter fell.
    pub(crate) fn regressions(&self) -> u64 {
        self.regressions
    }
}

#[derive(Debug, Eq, PartialEq)]
enum Followed {
    Grew,
    Fell,
    StandsStill,
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

    fn follow(&mut self, read: &[f64], now: Instant) -> Followed {
        let shifted: Vec<f64> = read
            .iter()
            .zip(self.offset.iter().chain(std::iter::repeat(&0.0)))
            .map(|(n, by)| n + by)
            .collect();
        let is_lower = shifted.iter().zip(&self.published).any(|(n, was)| {
            // A sum of fractions is not the same in another order.
            n < was && was - n > was.abs() * 1e-12
        });
        if !is_lower {
            self.lower_since = None;
            for (was, n) in self.published.iter_mut().zip(shifted) {
                *was = was.max(n);
            }
            return Followed::Grew;
        }
        match self.lower_since {
            None => {
                self.lower_since = Some(now);
                Followed::Fell
            }
            Some(since) if now.saturating_duration_since(since) >= PATIENCE => {
                self.lower_since = None;
                self.offset = self
                    .published
                    .iter()
                    .zip(read)
                    .map(|(was, n)| was - n)
                    .collect();
                Followed::StandsStill
            }
            Some(_) => Followed::StandsStill,
        }
    }
}

/// The statistics of the server begin anew after a crash, and say when; they may.
fn is_guarded(key: &Key) -> bool {
    !matches!(key.metric().kind, MetricKind::Gauge)
        && matches!(key.source(), Source::Totals | Source::Operations)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts stay below 2^53, as those of Prometheus do"
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
    reason = "they were counts, and sums of counts"
)]
fn rebuilt(key: &Key, numbers: &[f64]) -> Value {
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

    struct Scene {
        guard: Guard,
        start: Instant,
    }

    impl Scene {
        fn new() -> Scene {
            let mut guard = Guard::default();
            assert!(!guard.watch("7:1"), "the first one is not another one");
            Scene {
                guard,
                start: Instant::now(),
            }
        }

        fn publish(&mut self, minute: u64, name: &str, queue: &str, value: Value) -> Value {
            let key = Key::new(name, vec![queue.to_owned()]).expect("in the catalogue");
            let mut series = Series::from([(key.clone(), value)]);
            let now = self.start + Duration::from_mins(minute);
            self.guard
                .pass(&mut series, &BTreeSet::from([Source::Totals]), now);
            series.remove(&key).expect("it is there")
        }

        fn counter(&mut self, minute: u64, value: f64) -> f64 {
            match self.publish(minute, COUNTER, "a", Value::Number(value)) {
                Value::Number(number) => number,
                Value::Buckets { .. } => f64::NAN,
            }
        }
    }

    #[track_caller]
    fn follows(readings: &[(u64, f64, f64)], regressions: u64) {
        let mut scene = Scene::new();
        for &(minute, read, published) in readings {
            let found = scene.counter(minute, read);
            assert!(
                (found - published).abs() < 1e-9,
                "minute {minute}: {found}, not {published}"
            );
        }
        assert_eq!(scene.guard.regressions(), regressions);
    }

    #[test]
    fn a_counter_that_grows_is_published_as_it_is() {
        follows(&[(0, 10.0, 10.0), (1, 10.0, 10.0), (2, 12.0, 12.0)], 0);
    }

    #[test]
    fn a_counter_that_fell_stands_still_until_it_has_caught_up() {
        follows(
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
    fn a_counter_that_does_not_catch_up_goes_on_by_an_offset() {
        follows(
            &[
                (0, 50.0, 50.0),
                (1, 3.0, 50.0),
                (4, 4.0, 50.0),
                (6, 5.0, 50.0),
                (7, 6.0, 51.0),
                (8, 16.0, 61.0),
                // And once more.
                (9, 15.0, 61.0),
                (14, 15.0, 61.0),
                (15, 17.0, 63.0),
            ],
            2,
        );
    }

    #[test]
    fn what_appears_later_is_born_at_zero_once() {
        let mut scene = Scene::new();
        scene.counter(0, 5.0);
        let mut born =
            |minute, value: f64| scene.publish(minute, COUNTER, "new", Value::Number(value));
        assert_eq!(born(1, 3.0), Value::Number(0.0));
        assert_eq!(born(2, 3.0), Value::Number(3.0));
    }

    #[test]
    fn another_database_is_another_counter() {
        let mut scene = Scene::new();
        scene.counter(0, 50.0);
        assert!(!scene.guard.watch("7:1"));
        assert!(scene.guard.watch("8:1"));
        assert!((scene.counter(1, 2.0) - 2.0).abs() < 1e-9);
        assert_eq!(scene.guard.regressions(), 0);
    }

    #[test]
    fn a_histogram_stands_still_as_a_whole() {
        let mut scene = Scene::new();
        let buckets = |first: u64, second: u64, sum: f64| {
            let mut counts = vec![0; 11];
            counts[0] = first;
            counts[1] = second;
            Value::Buckets { counts, sum }
        };
        let mut publish = |minute, value| scene.publish(minute, HISTOGRAM, "a", value);
        publish(0, buckets(10, 5, 20.0));
        let held = publish(1, buckets(11, 4, 19.0));
        assert_eq!(held, buckets(10, 5, 20.0), "one bucket fell");
        assert_eq!(
            publish(6, buckets(11, 4, 19.0)),
            buckets(10, 5, 20.0),
            "patience is over"
        );
        assert_eq!(
            publish(7, buckets(12, 6, 24.0)),
            buckets(11, 7, 25.0),
            "on from there"
        );
        let regressions = scene.guard.regressions();
        assert_eq!(regressions, 1, "a histogram counts once");
    }

    #[test]
    fn a_sum_of_fractions_in_another_order_has_not_fallen() {
        let mut scene = Scene::new();
        let of = |sum| Value::Buckets {
            counts: vec![1; 11],
            sum,
        };
        scene.publish(0, HISTOGRAM, "a", of(0.1 + 0.2 + 0.3));
        let published = scene.publish(1, HISTOGRAM, "a", of(0.3 + 0.2 + 0.1));
        assert_eq!(published, of(0.1 + 0.2 + 0.3), "nor does it go down");
        assert_eq!(scene.guard.regressions(), 0);
    }

    #[test]
    fn statistics_of_the_server_may_begin_anew() {
        let mut scene = Scene::new();
        let name = "redrive_table_rows_inserted_total";
        scene.publish(0, name, "jobs", Value::Number(9.0));
        let published = scene.publish(1, name, "jobs", Value::Number(0.0));
        assert_eq!(published, Value::Number(0.0));
    }
}
