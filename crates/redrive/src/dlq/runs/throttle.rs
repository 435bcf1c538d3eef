//! Slows an unthrottled run down while live jobs wait longer than before it. Pure.
//!
//! Redriven jobs rank behind new ones of the same priority, but take time of the server and of the workers. Before each
//! batch, the driver therefore measures how long the oldest live job of each queue has waited. The first batches are small
//! and show the usual wait. Then batches double while no wait exceeds twice that. After a longer wait they start small, double
//! up to half of the batch that was too large, and then grow slowly, as TCP does after a loss
//! ([RFC 5681](https://www.rfc-editor.org/rfc/rfc5681), section 3.1).

use std::collections::BTreeMap;
use std::time::Duration;

/// The smallest batch. With [`RECOVERY`], a run sends at least 300 letters a second.
const MIN_BATCH: i64 = 25;
/// How many batches show the usual wait.
const SAMPLES: u32 = 8;
/// The time between batches that are smaller than the largest one.
const SPACING: Duration = Duration::from_millis(10);
/// The time after a wait that was too long.
const RECOVERY: Duration = Duration::from_millis(50);
/// A wait this short is never too long.
const SHORT: Duration = Duration::from_millis(5);

/// The size of a run's batches.
#[derive(Clone, Debug)]
pub(super) struct Throttle {
    /// The largest batch.
    max: i64,
    /// The longest wait per queue before the run could cause it.
    usual: BTreeMap<String, Duration>,
    samples: u32,
    letters: i64,
    /// The size at which batches stop doubling.
    doubles_until: i64,
}

impl Throttle {
    pub(super) fn new(max: i64) -> Throttle {
        Throttle {
            max,
            usual: BTreeMap::new(),
            samples: 0,
            letters: MIN_BATCH,
            doubles_until: max,
        }
    }

    /// Returns whether the last batch was smaller than the largest one.
    pub(super) fn is_slow(&self) -> bool {
        self.samples > 0 && self.letters < self.max
    }

    /// Decides the next batch: its largest number of letters, and the wait after it. Takes how long the oldest live job of
    /// each queue with a live worker has waited; zero: none waits. Without a queue, no job needs protection and the batch is
    /// the largest.
    pub(super) fn next(&mut self, waits: Vec<(String, Duration)>) -> (i64, Duration) {
        if waits.is_empty() {
            return (self.max, Duration::ZERO);
        }
        if self.samples < SAMPLES {
            self.samples += 1;
            for (queue, waited) in waits {
                let usual = self.usual.entry(queue).or_default();
                *usual = waited.max(*usual);
            }
            return (MIN_BATCH, SPACING);
        }
        let is_too_long = |(queue, waited): &(String, Duration)| {
            let usual = self.usual.get(queue).copied().unwrap_or_default();
            *waited > (usual * 2).max(SHORT)
        };
        if waits.iter().any(is_too_long) {
            self.doubles_until = (self.letters / 2).max(MIN_BATCH);
            self.letters = MIN_BATCH;
            return (MIN_BATCH, RECOVERY);
        }
        self.letters = match self.letters < self.doubles_until {
            true => (self.letters * 2).min(self.doubles_until),
            false => (self.letters + MIN_BATCH).min(self.max),
        };
        match self.letters == self.max {
            true => (self.max, Duration::ZERO),
            false => (self.letters, SPACING),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A throttle that has seen live jobs of `q` wait for 10 ms, and of `abandoned` for a minute.
    fn sampled() -> Throttle {
        let mut throttle = Throttle::new(1000);
        for _ in 0..SAMPLES {
            assert_eq!(next(&mut throttle, 10, 60_000), (MIN_BATCH, SPACING));
        }
        throttle
    }

    fn next(throttle: &mut Throttle, q: u64, abandoned: u64) -> (i64, Duration) {
        let waits = [("q", q), ("abandoned", abandoned)];
        let waits = waits.map(|(queue, ms)| (queue.to_owned(), Duration::from_millis(ms)));
        throttle.next(waits.into())
    }

    fn sizes(throttle: &mut Throttle, ms: u64, batches: usize) -> Vec<i64> {
        let next = |_| next(throttle, ms, 0).0;
        (0..batches).map(next).collect()
    }

    #[test]
    fn without_a_worker_every_batch_is_the_largest() {
        let mut throttle = Throttle::new(500);
        assert_eq!(throttle.next(Vec::new()), (500, Duration::ZERO));
        assert!(!throttle.is_slow());
    }

    #[test]
    fn batches_double_up_to_the_largest_while_waits_are_usual() {
        let mut throttle = sampled();
        assert!(throttle.is_slow());
        let grown = sizes(&mut throttle, 20, 7);
        assert_eq!(grown, [50, 100, 200, 400, 800, 1000, 1000]);
        assert!(!throttle.is_slow());
        assert_eq!(next(&mut throttle, 0, 90_000), (1000, Duration::ZERO));
    }

    #[test]
    fn a_longer_wait_makes_batches_small_and_then_lets_them_grow_slowly() {
        let mut throttle = sampled();
        assert_eq!(sizes(&mut throttle, 0, 4), [50, 100, 200, 400]);
        assert_eq!(next(&mut throttle, 21, 0), (MIN_BATCH, RECOVERY));
        assert_eq!(sizes(&mut throttle, 0, 5), [50, 100, 200, 225, 250]);
        // A queue that had no worker before.
        let new = vec![("new".to_owned(), SHORT + SPACING)];
        assert_eq!(throttle.next(new), (MIN_BATCH, RECOVERY));
    }
}
