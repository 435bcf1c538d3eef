//! The horizon: for how long a transaction id has been held, by samples of the clock. Pure.
//!
//! A slot or a standby says which transaction it keeps vacuum from, and not since when. Whoever
//! looks now and then at both the clock and the next id can tell.

/// When the next transaction id was which, now and then; the oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Horizon {
    samples: Vec<(f64, u64)>,
}

/// With more samples than this the old ones are thinned out; a year then takes about 300.
const MOST_SAMPLES: usize = 512;
/// Seconds between two samples at least.
const APART: f64 = 10.0;

impl Horizon {
    /// Remembers that at this time, in seconds, this was the next transaction id.
    pub(crate) fn sample(&mut self, at: f64, next_id: u64) {
        if let Some(&(last_at, last_id)) = self.samples.last() {
            if at < last_at || next_id < last_id {
                // Another server, or one that was set back.
                self.samples.clear();
            } else if at - last_at < APART || next_id == last_id {
                return;
            }
        }
        self.samples.push((at, next_id));
        if self.samples.len() > MOST_SAMPLES {
            self.thin_out(at);
        }
    }

    /// Lets go of samples without which no age is wrong by more than a tenth.
    fn thin_out(&mut self, now: f64) {
        let samples = std::mem::take(&mut self.samples);
        for (index, &(at, id)) in samples.iter().enumerate() {
            let is_needed = match (self.samples.last(), samples.get(index + 1)) {
                (Some(&(before, _)), Some(&(after, _))) => after - before > (now - at) / 10.0,
                // The ends.
                (None, _) | (_, None) => true,
            };
            if is_needed {
                self.samples.push((at, id));
            }
        }
    }

    /// For how many seconds this transaction id has been in the past; at least, for ids from before
    /// the first sample. 0 while it is the next one.
    pub(crate) fn age(&self, id: u64, now: f64, next_id: u64) -> f64 {
        if id >= next_id {
            return 0.0;
        }
        let first_after = self.samples.iter().find(|&&(_, next_id)| next_id > id);
        first_after.map_or(0.0, |&(at, _)| (now - at).max(0.0))
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
    fn is_old(horizon: &Horizon, id: u64, seconds: f64) {
        let age = horizon.age(id, 1000.0, 500);
        assert!(
            (age - seconds).abs() < 1e-9,
            "{id} is {age} seconds old, not {seconds}"
        );
    }

    #[test]
    fn an_id_is_as_old_as_the_first_sample_that_is_past_it() {
        let horizon = sampled(&[(100.0, 50), (200.0, 70), (900.0, 400)]);
        is_old(&horizon, 10, 900.0);
        is_old(&horizon, 50, 800.0);
        is_old(&horizon, 69, 800.0);
        is_old(&horizon, 70, 100.0);
        is_old(&horizon, 450, 0.0);
        is_old(&horizon, 500, 0.0);
        is_old(&Horizon::default(), 10, 0.0);
    }

    #[test]
    fn an_idle_server_ages_nobody() {
        let mut horizon = sampled(&[(100.0, 50)]);
        horizon.sample(5000.0, 50);
        assert!(horizon.age(50, 9000.0, 50).abs() < 1e-9);
        // It is held from the moment that others go on.
        horizon.sample(9010.0, 51);
        assert!((horizon.age(50, 9110.0, 60) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn samples_are_few_and_reach_far_back() {
        let mut horizon = Horizon::default();
        let mut at = 0.0;
        for id in 1..=100_000 {
            horizon.sample(at, id);
            at += 15.0;
        }
        assert!(horizon.samples.len() <= MOST_SAMPLES);
        for id in [5_u32, 50_000, 90_000, 99_900] {
            let true_age = at - f64::from(id) * 15.0;
            let age = horizon.age(id.into(), at, 200_000);
            let is_near = age > true_age * 0.85 && age <= true_age;
            assert!(is_near, "{id}: {age}, not {true_age}");
        }
    }

    #[test]
    fn a_server_that_was_set_back_begins_anew() {
        let mut horizon = sampled(&[(100.0, 50), (200.0, 70)]);
        horizon.sample(300.0, 20);
        assert_eq!(horizon.samples, [(300.0, 20)]);
    }
}
