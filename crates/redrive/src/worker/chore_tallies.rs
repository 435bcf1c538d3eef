//! Counts how long the chores of a worker take and how often they fail.
//!
//! The counts wait in memory until a chore has failed or done work. An idle worker writes nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;
use crate::pipeline::buckets::{self, bucket};
use crate::worker::chore::Chore;

const RUNS: &str = "chore";
const FAILURES: &str = "chore_failed";

/// The counts that are not written yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChoreTallies {
    /// By key, chore and bucket: how many, and their total time in seconds.
    counts: BTreeMap<(&'static str, Chore, Option<i16>), (i64, f64)>,
}

impl ChoreTallies {
    pub(crate) fn ran(&mut self, chore: Chore, took: Duration) {
        let seconds = took.as_secs_f64();
        self.add(RUNS, chore, Some(bucket(buckets::CHORE, seconds)), seconds);
    }

    pub(crate) fn failed(&mut self, chore: Chore) {
        self.add(FAILURES, chore, None, 0.0);
    }

    fn add(&mut self, key: &'static str, chore: Chore, bucket: Option<i16>, seconds: f64) {
        let (count, sum) = self.counts.entry((key, chore, bucket)).or_default();
        *count += 1;
        *sum += seconds;
    }

    /// Whether a chore failed, or one ran that an idle worker does not run. A fold is not work: its count would be the
    /// reason of the next one.
    pub(crate) fn has_work(&self) -> bool {
        use Chore::{Age, FoldCounters, Look, Ring, Unhandled};
        let is_rest = |chore: Chore| matches!(chore, Look | Ring | FoldCounters | Unhandled | Age);
        let mut keys = self.counts.keys();
        keys.any(|(key, chore, _)| *key == FAILURES || !is_rest(*chore))
    }

    /// Writes the counts of a queue's worker.
    pub(crate) fn write(&self, session: &mut Session, queue: &str) -> Result<()> {
        let keys: Vec<&str> = self.counts.keys().map(|(key, ..)| *key).collect();
        let labels: Vec<&str> = self.counts.keys().map(|(_, it, _)| it.as_str()).collect();
        let buckets: Vec<Option<i16>> = self.counts.keys().map(|(.., bucket)| *bucket).collect();
        let (counts, sums): (Vec<i64>, Vec<f64>) = self.counts.values().copied().unzip();
        session
            .query(
                "count the chore runs",
                &sql::COUNT_CHORES,
                &[&queue, &keys, &labels, &buckets, &counts, &sums],
            )
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_idle_worker_does_too_is_no_work() {
        let mut idle = ChoreTallies::default();
        idle.ran(Chore::Ring, Duration::from_mins(1));
        idle.ran(Chore::FoldCounters, Duration::ZERO);
        assert!(!idle.has_work());
        let mut failing = idle.clone();
        failing.failed(Chore::Ring);
        assert!(failing.has_work());
        // The second one is on the bound.
        for ms in [250, 1000] {
            idle.ran(Chore::Reap, Duration::from_millis(ms));
        }
        assert!(idle.has_work());
        assert_eq!(idle.counts[&(RUNS, Chore::Reap, Some(1))], (2, 1.25));
    }
}
