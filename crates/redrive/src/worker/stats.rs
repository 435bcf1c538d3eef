//! Counts what a worker has done.

use std::iter::Sum;

use crate::sync::atomic::{AtomicU64, Ordering};

/// The counters behind [`WorkerStats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) done: AtomicU64,
    pub(crate) retried: AtomicU64,
    pub(crate) snoozed: AtomicU64,
    pub(crate) outages: AtomicU64,
    pub(crate) dead: AtomicU64,
    pub(crate) released: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) looks: AtomicU64,
    pub(crate) readings: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self) -> WorkerStats {
        WorkerStats {
            done: self.done.load(Ordering::Relaxed),
            retried: self.retried.load(Ordering::Relaxed),
            snoozed: self.snoozed.load(Ordering::Relaxed),
            outages: self.outages.load(Ordering::Relaxed),
            dead: self.dead.load(Ordering::Relaxed),
            released: self.released.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            looks: self.looks.load(Ordering::Acquire),
            readings: self.readings.load(Ordering::Acquire),
        }
    }
}

/// Counts what a worker has done since it started.
///
/// Results count when the database has recorded them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Jobs completed.
    pub done: u64,
    /// Attempts that failed and will be retried.
    pub retried: u64,
    /// Jobs snoozed by their handlers.
    pub snoozed: u64,
    /// Attempts that met an outage. They are not charged.
    pub outages: u64,
    /// Jobs that became dead letters.
    pub dead: u64,
    /// Jobs released before they started, when the worker stopped, or when an outage interrupted them.
    pub released: u64,
    /// Results rejected because their lease was lost.
    pub lost: u64,
    /// Times it began to look for jobs, whether or not it could take any. Each look begins after the one
    /// before has ended.
    pub looks: u64,
    /// Times it read the breakers, pauses and limits of its queue, and acted on them from then on.
    pub readings: u64,
}

/// What several workers have done together.
impl Sum for WorkerStats {
    fn sum<I: Iterator<Item = WorkerStats>>(all: I) -> WorkerStats {
        all.fold(WorkerStats::default(), |sum, one| WorkerStats {
            done: sum.done + one.done,
            retried: sum.retried + one.retried,
            snoozed: sum.snoozed + one.snoozed,
            outages: sum.outages + one.outages,
            dead: sum.dead + one.dead,
            released: sum.released + one.released,
            lost: sum.lost + one.lost,
            looks: sum.looks + one.looks,
            readings: sum.readings + one.readings,
        })
    }
}
