//! Cells: what is to be counted of leases that end with all their jobs done. Pure.
//!
//! The settler writes them in the statement that ends the leases, and each names its lease: what
//! belongs to a lease that was lost is not counted.

use std::sync::Arc;

use crate::claim::LeaseId;
use crate::metrics::{BOUNDS, bucket};
use crate::settle::Settlement;

/// A sum over jobs of a lease that have word, label and bucket in common.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell {
    /// What is counted; see `redrive.metric_words`.
    pub(crate) word: &'static str,
    pub(crate) label: Option<Arc<str>>,
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
        let mut kinds: Vec<(&Arc<str>, i64)> = Vec::new();
        let mut wait = Observed::new(BOUNDS.wait);
        let mut run = Observed::new(BOUNDS.run);
        let mut end_to_end = Observed::new(BOUNDS.end_to_end);
        let mut attempts = Observed::new(BOUNDS.attempts);
        for settlement in settlements {
            let kind = &settlement.facts.kind;
            match kinds.iter_mut().find(|(other, _)| *other == kind) {
                Some((_, count)) => *count += 1,
                None => kinds.push((kind, 1)),
            }
            wait.add(settlement.facts.wait.as_secs_f64());
            run.add(settlement.run_time.as_secs_f64());
            end_to_end.add(settlement.age.as_secs_f64());
            attempts.add(settlement.facts.attempt.into());
        }
        let succeeded = kinds.into_iter().map(|(kind, count)| Cell {
            word: "succeeded",
            label: Some(Arc::clone(kind)),
            bucket: None,
            count,
            sum: 0.0,
        });
        DoneLease {
            lease,
            jobs: settlements.len() as u64,
            cells: succeeded
                .chain(wait.cells("wait", None))
                .chain(run.cells("run", Some("succeeded".into())))
                .chain(end_to_end.cells("end_to_end", None))
                .chain(attempts.cells("attempts_done", None))
                .collect(),
        }
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
            buckets: vec![(0, 0.0); bounds.len() + 1],
        }
    }

    fn add(&mut self, observed: f64) {
        let place = usize::try_from(bucket(self.bounds, observed)).unwrap_or_default();
        if let Some((count, sum)) = self.buckets.get_mut(place) {
            *count += 1;
            *sum += observed;
        }
    }

    fn cells(self, word: &'static str, label: Option<Arc<str>>) -> impl Iterator<Item = Cell> {
        (0..)
            .zip(self.buckets)
            .filter(|(_, (count, _))| *count > 0)
            .map(move |(bucket, (count, sum))| Cell {
                word,
                label: label.clone(),
                bucket: Some(bucket),
                count,
                sum,
            })
    }
}
