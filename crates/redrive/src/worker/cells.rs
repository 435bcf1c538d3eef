//! Cells: what is to be counted of the verdicts on a lease. Pure.
//!
//! The settler writes them in the statement that writes the verdicts, and each names its lease:
//! what belongs to a lease that was lost is not counted.

use std::sync::Arc;

use crate::cause::Cause;
use crate::claim::LeaseId;
use crate::judge::Verdict;
use crate::metrics::{BOUNDS, bucket};
use crate::settle::Settlement;

/// A sum over verdicts of a lease that have word, label, cause and bucket in common.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell {
    /// What is counted; see `redrive.metric_words`.
    pub(crate) word: &'static str,
    pub(crate) label: Option<Arc<str>>,
    /// Of a failure.
    pub(crate) cause: Option<Cause>,
    /// Of a histogram.
    pub(crate) bucket: Option<i16>,
    pub(crate) count: i64,
    pub(crate) sum: f64,
}

/// A lease that ends, all of whose open jobs are plainly done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DoneLease {
    pub(crate) lease: LeaseId,
    pub(crate) jobs: u64,
    pub(crate) cells: Vec<Cell>,
}

impl DoneLease {
    pub(crate) fn of(lease: LeaseId, settlements: &[Settlement]) -> DoneLease {
        DoneLease {
            lease,
            jobs: settlements.len() as u64,
            cells: cells(settlements),
        }
    }
}

/// What is to be counted of these verdicts, if the database takes them as they are.
pub(crate) fn cells(settlements: &[Settlement]) -> Vec<Cell> {
    let mut counted: Vec<Cell> = Vec::new();
    let mut wait = Observed::new(BOUNDS.wait);
    let mut succeeded = Observed::new(BOUNDS.run);
    let mut failed = Observed::new(BOUNDS.run);
    let mut end_to_end = Observed::new(BOUNDS.end_to_end);
    let mut attempts = Observed::new(BOUNDS.attempts);
    let mut retry_delay = Observed::new(BOUNDS.retry_delay);
    for settlement in settlements {
        let (kind, cause) = (&settlement.facts.kind, settlement.cause);
        let run_time = settlement.run_time.as_secs_f64();
        wait.add(settlement.facts.wait.as_secs_f64());
        match &settlement.verdict {
            Verdict::Done => {
                count(&mut counted, "succeeded", Some(kind), None);
                succeeded.add(run_time);
                end_to_end.add(settlement.age.as_secs_f64());
                attempts.add(settlement.facts.attempt.into());
            }
            Verdict::Retry { delay, .. } => {
                count(&mut counted, "retried", None, None);
                retry_delay.add(delay.as_secs_f64());
            }
            Verdict::Outage { .. } => count(&mut counted, "retried", None, None),
            Verdict::Snooze { .. } => count(&mut counted, "snoozed", None, None),
            Verdict::Dead { .. } => count(&mut counted, "ended", None, None),
        }
        if cause.is_some() {
            count(&mut counted, "failed", Some(kind), cause);
            failed.add(run_time);
        }
    }
    counted
        .into_iter()
        .chain(wait.cells("wait", None))
        .chain(succeeded.cells("run", Some("succeeded")))
        .chain(failed.cells("run", Some("failed")))
        .chain(end_to_end.cells("end_to_end", None))
        .chain(attempts.cells("attempts_done", None))
        .chain(retry_delay.cells("retry_delay", None))
        .collect()
}

/// One more of these.
fn count(
    counted: &mut Vec<Cell>,
    word: &'static str,
    kind: Option<&Arc<str>>,
    cause: Option<Cause>,
) {
    let same =
        |cell: &&mut Cell| cell.word == word && cell.label.as_ref() == kind && cell.cause == cause;
    match counted.iter_mut().find(same) {
        Some(cell) => cell.count += 1,
        None => counted.push(Cell {
            word,
            label: kind.map(Arc::clone),
            cause,
            bucket: None,
            count: 1,
            sum: 0.0,
        }),
    }
}

/// What was observed of a histogram: a count and a sum a bucket.
struct Observed {
    bounds: &'static [f64],
    buckets: Vec<(i64, f64)>,
}

impl Observed {
    fn new(bounds: &'static [f64]) -> Observed {
        Observed {
            bounds,
            buckets: Vec::new(),
        }
    }

    fn add(&mut self, observed: f64) {
        if self.buckets.is_empty() {
            self.buckets = vec![(0, 0.0); self.bounds.len() + 1];
        }
        let place = usize::try_from(bucket(self.bounds, observed)).unwrap_or_default();
        if let Some((count, sum)) = self.buckets.get_mut(place) {
            *count += 1;
            *sum += observed;
        }
    }

    fn cells(self, word: &'static str, label: Option<&str>) -> impl Iterator<Item = Cell> {
        let label: Option<Arc<str>> = label.map(Into::into);
        (0..)
            .zip(self.buckets)
            .filter(|(_, (count, _))| *count > 0)
            .map(move |(bucket, (count, sum))| Cell {
                word,
                label: label.clone(),
                cause: None,
                bucket: Some(bucket),
                count,
                sum,
            })
    }
}
