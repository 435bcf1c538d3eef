//! Slows an unthrottled run down while live jobs wait longer than before it. Pure.
//!
//! Redriven jobs rank behind new ones of the same priority, but sending and running them takes time
//! of the server and of the workers. The driver therefore measures, before each batch, how long the
//! oldest live job of each queue has waited. The first batches are small and show the usual wait.
//! Afterwards the batches double while no wait exceeds twice the usual one. After a longer wait they
//! start small again, double up to half of the batch that was too large, and then grow slowly, as TCP
//! does after a loss ([RFC 5681](https://www.rfc-editor.org/rfc/rfc5681), section 3.1).

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

/// How long the oldest live job of a queue with a live worker has waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LiveWait {
    pub(super) queue: Box<str>,
    /// Zero: no live job waits.
    pub(super) waited: Duration,
}

/// The next batch of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NextBatch {
    /// The maximum number of letters.
    pub(super) letters: i64,
    /// The wait after it.
    pub(super) pause: Duration,
}

/// The size of a run's batches.
#[derive(Clone, Debug)]
pub(super) struct Throttle {
    /// The largest batch.
    max: i64,
    /// The longest wait per queue before the run could cause it.
    usual: BTreeMap<Box<str>, Duration>,
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

    /// Decides the next batch. Without a queue, no job needs protection and the batch is the largest.
    pub(super) fn next(&mut self, waits: Vec<LiveWait>) -> NextBatch {
        if waits.is_empty() {
            return NextBatch {
                letters: self.max,
                pause: Duration::ZERO,
            };
        }
        if self.samples < SAMPLES {
            self.samples += 1;
            for LiveWait { queue, waited } in waits {
                let usual = self.usual.entry(queue).or_default();
                *usual = waited.max(*usual);
            }
            return NextBatch {
                letters: MIN_BATCH.min(self.max),
                pause: SPACING,
            };
        }
        if waits.iter().any(|wait| self.is_too_long(wait)) {
            self.doubles_until = (self.letters / 2).max(MIN_BATCH);
            self.letters = MIN_BATCH;
            return NextBatch {
                letters: self.letters.min(self.max),
                pause: RECOVERY,
            };
        }
        self.letters = if self.letters < self.doubles_until {
            (self.letters * 2).min(self.doubles_until)
        } else {
            self.letters + MIN_BATCH
        }
        .min(self.max);
        NextBatch {
            letters: self.letters,
            pause: match self.letters == self.max {
                true => Duration::ZERO,
                false => SPACING,
            },
        }
    }

    fn is_too_long(&self, wait: &LiveWait) -> bool {
        let usual = self.usual.get(&wait.queue).copied().unwrap_or_default();
        wait.waited > (usual * 2).max(SHORT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn waits(queues: &[(&str, u32)]) -> Vec<LiveWait> {
        let wait = |&(queue, ms): &(&str, u32)| LiveWait {
            queue: queue.into(),
            waited: MS * ms,
        };
        queues.iter().map(wait).collect()
    }

    /// A throttle that has seen live jobs of `q` wait for 10 ms.
    fn sampled() -> Throttle {
        let mut throttle = Throttle::new(1000);
        for _ in 0..SAMPLES {
            let batch = throttle.next(waits(&[("q", 10)]));
            assert_eq!((batch.letters, batch.pause), (MIN_BATCH, SPACING));
        }
        throttle
    }

    fn sizes(throttle: &mut Throttle, ms: u32, batches: usize) -> Vec<i64> {
        let next = |_| throttle.next(waits(&[("q", ms)])).letters;
        (0..batches).map(next).collect()
    }

    #[test]
    fn without_a_worker_every_batch_is_the_largest() {
        let mut throttle = Throttle::new(500);
        for _ in 0..20 {
            let batch = throttle.next(Vec::new());
            assert_eq!((batch.letters, batch.pause), (500, Duration::ZERO));
            assert!(!throttle.is_slow());
        }
    }

    #[test]
    fn batches_double_up_to_the_largest_while_waits_are_usual() {
        let mut throttle = sampled();
        assert!(throttle.is_slow());
        let grown = sizes(&mut throttle, 20, 7);
        assert_eq!(grown, [50, 100, 200, 400, 800, 1000, 1000]);
        assert!(!throttle.is_slow());
        assert_eq!(throttle.next(waits(&[("q", 0)])).pause, Duration::ZERO);
    }

    #[test]
    fn a_longer_wait_makes_batches_small_and_then_lets_them_grow_slowly() {
        let mut throttle = sampled();
        assert_eq!(sizes(&mut throttle, 0, 4), [50, 100, 200, 400]);
        let batch = throttle.next(waits(&[("q", 21)]));
        assert_eq!((batch.letters, batch.pause), (MIN_BATCH, RECOVERY));
        assert_eq!(sizes(&mut throttle, 0, 5), [50, 100, 200, 225, 250]);
    }

    #[test]
    fn each_queue_is_compared_with_its_usual_wait() {
        let mut throttle = Throttle::new(1000);
        for _ in 0..SAMPLES {
            throttle.next(waits(&[("abandoned", 60_000), ("quick", 0)]));
        }
        let aged = |quick| waits(&[("abandoned", 90_000), ("quick", quick)]);
        assert_eq!(throttle.next(aged(5)).letters, 50);
        assert_eq!(throttle.next(aged(6)).letters, MIN_BATCH);
        assert_eq!(throttle.next(waits(&[("new", 6)])).pause, RECOVERY);
    }
}
