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
        let mut cells = Vec::new();
        let succeeded: Arc<str> = "succeeded".into();
        for settlement in settlements {
            let bounds = &*BOUNDS;
            let run = settlement.run_time.as_secs_f64();
            let age = settlement.age.as_secs_f64();
            let wait = settlement.facts.wait.as_secs_f64();
            let attempt = f64::from(settlement.facts.attempt);
            add(
                &mut cells,
                "succeeded",
                Some(&settlement.facts.kind),
                None,
                0.0,
            );
            add(
                &mut cells,
                "wait",
                None,
                Some(bucket(bounds.wait, wait)),
                wait,
            );
            add(
                &mut cells,
                "run",
                Some(&succeeded),
                Some(bucket(bounds.run, run)),
                run,
            );
            add(
                &mut cells,
                "end_to_end",
                None,
                Some(bucket(bounds.end_to_end, age)),
                age,
            );
            add(
                &mut cells,
                "attempts_done",
                None,
                Some(bucket(bounds.attempts, attempt)),
                attempt,
            );
        }
        DoneLease {
            lease,
            jobs: settlements.len() as u64,
            cells,
        }
    }
}

/// Counts one job. There are few cells, so looking through them is quick.
fn add(
    cells: &mut Vec<Cell>,
    word: &'static str,
    label: Option<&Arc<str>>,
    bucket: Option<i16>,
    observed: f64,
) {
    let same = cells
        .iter_mut()
        .find(|cell| cell.word == word && cell.bucket == bucket && cell.label.as_ref() == label);
    match same {
        Some(cell) => {
            cell.count += 1;
            cell.sum += observed;
        }
        None => cells.push(Cell {
            word,
            label: label.cloned(),
            bucket,
            count: 1,
            sum: observed,
        }),
    }
}
