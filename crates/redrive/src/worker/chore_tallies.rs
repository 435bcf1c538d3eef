//! Counts how long the chores of a worker take and how often they fail.
//!
//! The counts wait in memory until this worker folds counters, a chore fails or has done work, or the
//! worker ends. An idle worker writes nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::db::session::Session;
use crate::db::sql;
use crate::error::Result;
use crate::pipeline::buckets::{self, bucket};
use crate::worker::chore::Chore;

/// The counts that are not written yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChoreTallies {
    /// By chore and bucket: the number of runs and their total time in seconds.
    runs: BTreeMap<(Chore, i16), (i64, f64)>,
    failures: BTreeMap<Chore, i64>,
}

impl ChoreTallies {
    pub(crate) fn ran(&mut self, chore: Chore, took: Duration) {
        let seconds = took.as_secs_f64();
        let place = bucket(buckets::CHORE, seconds);
        let (count, sum) = self.runs.entry((chore, place)).or_default();
        *count += 1;
        *sum += seconds;
    }

    pub(crate) fn failed(&mut self, chore: Chore) {
        *self.failures.entry(chore).or_default() += 1;
    }

    pub(crate) fn has_failures(&self) -> bool {
        !self.failures.is_empty()
    }

    /// Whether a chore ran that an idle worker does not run.
    pub(crate) fn has_work(&self) -> bool {
        let is_work = |chore: Chore| !matches!(chore, Chore::Look | Chore::Ring);
        self.runs.keys().any(|(chore, _)| is_work(*chore))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.failures.is_empty()
    }

    /// Writes the counts of a queue's worker.
    pub(crate) fn write(&self, session: &mut Session, queue: &str) -> Result<()> {
        let rows = self.rows();
        let keys: Vec<&str> = rows.iter().map(|row| row.key).collect();
        let labels: Vec<&str> = rows.iter().map(|row| row.chore.name()).collect();
        let buckets: Vec<Option<i16>> = rows.iter().map(|row| row.bucket).collect();
        let counts: Vec<i64> = rows.iter().map(|row| row.count).collect();
        let sums: Vec<f64> = rows.iter().map(|row| row.sum).collect();
        session
            .query(
                "count the chore runs",
                &sql::COUNT_CHORES,
                &[&queue, &keys, &labels, &buckets, &counts, &sums],
            )
            .map(drop)
    }

    fn rows(&self) -> Vec<ChoreCount> {
        let runs = self
            .runs
            .iter()
            .map(|((chore, bucket), (count, sum))| ChoreCount {
                key: "chore",
                chore: *chore,
                bucket: Some(*bucket),
                count: *count,
                sum: *sum,
            });
        let failures = self.failures.iter().map(|(chore, count)| ChoreCount {
            key: "chore_failed",
            chore: *chore,
            bucket: None,
            count: *count,
            sum: 0.0,
        });
        runs.chain(failures).collect()
    }
}

/// A row to write.
#[derive(Debug, PartialEq)]
struct ChoreCount {
    key: &'static str,
    chore: Chore,
    bucket: Option<i16>,
    count: i64,
    sum: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted_by_bucket_and_failures_by_chore() {
        let mut tallies = ChoreTallies::default();
        assert!(tallies.is_empty());
        tallies.ran(Chore::Ring, Duration::from_mins(1));
        assert!(!tallies.has_work(), "an idle worker does this too");
        tallies.ran(Chore::Reap, Duration::from_millis(250));
        tallies.ran(Chore::Reap, Duration::from_millis(500));
        assert!(tallies.has_work());
        assert!(!tallies.has_failures());
        tallies.failed(Chore::Ring);
        tallies.failed(Chore::Ring);
        assert!(tallies.has_failures());
        let row = |key, chore, bucket, count, sum| ChoreCount {
            key,
            chore,
            bucket,
            count,
            sum,
        };
        assert_eq!(
            tallies.rows(),
            [
                row("chore", Chore::Reap, Some(1), 2, 0.75),
                row("chore", Chore::Ring, Some(4), 1, 60.0),
                row("chore_failed", Chore::Ring, None, 2, 0.0),
            ]
        );
    }
}
