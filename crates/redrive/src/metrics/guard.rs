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

    /// The minute of a reading, its queue, what is read and published, and how many times values fell until then.
    type Reading<'a> = (u64, &'a str, &'a [f64], &'a [f64], u32);

    #[track_caller]
    fn publishes(name: &str, readings: &[Reading<'_>]) {
        let (mut guard, start) = (Guard::default(), Instant::now());
        for (minute, queue, read, published, regressions) in readings {
            let key = Key::new(name, vec![(*queue).to_owned()]).expect("in the catalogue");
            let mut series = Series::from([(key.clone(), read.to_vec())]);
            let now = start + Duration::from_mins(*minute);
            guard.apply(&mut series, &BTreeSet::from([Source::Totals]), now);
            let found = (&*series[&key], guard.regressions);
            assert_eq!(found, (*published, *regressions), "{read:?}");
        }
    }

    #[test]
    fn a_counter_that_fell_continues_from_its_last_value_and_a_new_one_is_zero_for_a_minute() {
        publishes(
            "redrive_jobs_enqueued_total",
            &[
                (0, "a", &[10.0], &[10.0], 0),
                (0, "a", &[10.0], &[10.0], 0),
                (0, "a", &[12.0], &[12.0], 0),
                (0, "a", &[7.0], &[12.0], 1),
                (0, "a", &[9.0], &[14.0], 1),
                (0, "a", &[8.0], &[14.0], 2),
                (0, "a", &[20.0], &[26.0], 2),
                (1, "new", &[3.0], &[0.0], 2),
                // For another reader.
                (1, "new", &[4.0], &[0.0], 2),
                (2, "new", &[4.0], &[4.0], 2),
            ],
        );
    }

    #[test]
    fn a_histogram_continues_as_a_whole() {
        let sum = 0.1 + 0.2 + 0.3;
        let before = [10.0, 5.0, sum];
        publishes(
            "redrive_job_attempts_to_success",
            &[
                (0, "a", &before, &before, 0),
                // A rounding difference is none.
                (0, "a", &[10.0, 5.0, 0.3 + 0.2 + 0.1], &before, 0),
                // One bucket fell.
                (0, "a", &[11.0, 4.0, 19.0], &before, 1),
                (0, "a", &[12.0, 6.0, 24.0], &[11.0, 7.0, sum + 5.0], 1),
            ],
        );
    }
}
