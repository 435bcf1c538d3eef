//! Estimates the age of transaction IDs in seconds. Pure.
//!
//! For replication slots and standbys, the server reports the transaction ID that holds back the
//! xmin horizon, but not its age. Samples of the clock and the next transaction ID give the age.

use std::collections::VecDeque;

use crate::metrics::series::{Key, Numbers, gauge};

#[derive(Clone, Debug, Default)]
pub(crate) struct Horizon {
    /// Time in seconds and the next transaction ID at that time, oldest first.
    samples: VecDeque<(f64, u64)>,
}

/// The samples of a week. For an older ID, its age is a lower bound.
const MAX_SAMPLES: usize = 7 * 24 * 60;
/// The minimum number of seconds between two samples.
const MIN_INTERVAL: f64 = 60.0;

impl Horizon {
    /// Records the next transaction ID at a time in seconds.
    pub(crate) fn sample(&mut self, at: f64, next_id: u64) {
        if let Some(&(last_at, last_id)) = self.samples.back() {
            if at < last_at || next_id < last_id {
                // This is another server, or one restored from a backup.
                self.samples.clear();
            } else if at - last_at < MIN_INTERVAL || next_id == last_id {
                return;
            }
        }
        self.samples.push_back((at, next_id));
        if self.samples.len() > MAX_SAMPLES {
            self.samples.pop_front();
        }
    }

    /// Returns how many seconds ago a transaction ID was assigned, and 0 if it is still unassigned.
    ///
    /// For IDs assigned before the first sample, the result is a lower bound.
    pub(crate) fn age(&self, id: u64, now: f64, next_id: u64) -> f64 {
        if id >= next_id {
            return 0.0;
        }
        let first_past = self.samples.iter().find(|&&(_, next_id)| next_id > id);
        first_past.map_or(0.0, |&(at, _)| (now - at).max(0.0))
    }

    /// Adds the ages of slots and standbys in seconds, which the server does not report.
    pub(crate) fn add_ages(&self, series: &mut Vec<(Key, Numbers)>, now: f64, next_id: u64) {
        for holder in ["slot", "standby_feedback"] {
            let name = "redrive_pg_oldest_horizon_age_transactions";
            let transactions = Key::new(name, vec![holder.to_owned()]);
            let held = series
                .iter()
                .find(|(key, _)| Some(key) == transactions.as_ref());
            let Some(transactions) = held.and_then(|(_, numbers)| numbers.first()) else {
                continue;
            };
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the value is an integer, and negative values become 0"
            )]
            let id = next_id.saturating_sub(*transactions as u64);
            let seconds = self.age(id, now, next_id);
            let seconds = gauge("redrive_pg_oldest_horizon_age_seconds", &[holder], seconds);
            series.extend(seconds);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(samples: &[(f64, u64)]) -> Horizon {
        let mut horizon = Horizon::default();
        for &(at, id) in samples {
            horizon.sample(at, id);
        }
        horizon
    }

    #[track_caller]
    fn assert_age(horizon: &Horizon, id: u64, seconds: f64) {
        let age = horizon.age(id, 1000.0, 500);
        let is_right = (age - seconds).abs() < 1e-9;
        assert!(is_right, "{id} is {age} seconds old, expected {seconds}");
    }

    #[test]
    fn the_age_of_an_id_starts_at_the_first_sample_past_it() {
        let horizon = sampled(&[(100.0, 50), (200.0, 70), (900.0, 400)]);
        assert_age(&horizon, 10, 900.0);
        assert_age(&horizon, 50, 800.0);
        assert_age(&horizon, 69, 800.0);
        assert_age(&horizon, 70, 100.0);
        assert_age(&horizon, 450, 0.0);
        assert_age(&horizon, 500, 0.0);
        assert_age(&Horizon::default(), 10, 0.0);
        let restored = sampled(&[(100.0, 50), (200.0, 70), (300.0, 20)]);
        assert_age(&restored, 10, 700.0);
    }

    #[test]
    fn ids_do_not_age_while_the_server_is_idle() {
        let mut horizon = sampled(&[(100.0, 50)]);
        horizon.sample(5000.0, 50);
        assert!(horizon.age(50, 9000.0, 50).abs() < 1e-9);
        // Its age starts when the server assigns the next ID.
        horizon.sample(9010.0, 51);
        assert!((horizon.age(50, 9110.0, 60) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn ages_grow_for_a_week() {
        let mut horizon = Horizon::default();
        for id in 1..=20_000_u32 {
            horizon.sample(f64::from(id) * 60.0, id.into());
        }
        assert_eq!(horizon.samples.len(), MAX_SAMPLES);
        let age = |id| horizon.age(id, 1_200_000.0, 20_001) / 60.0;
        assert!((age(19_000) - 999.0).abs() < 1e-9);
        assert!((age(5) - 10_079.0).abs() < 1e-9);
    }
}
