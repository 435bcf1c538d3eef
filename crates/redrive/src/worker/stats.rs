//! Counts what a worker has done.

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
    /// Adds what they have counted to the sum of several.
    pub(crate) fn add_to(&self, sum: &mut WorkerStats) {
        sum.done += self.done.load(Ordering::Relaxed);
        sum.retried += self.retried.load(Ordering::Relaxed);
        sum.snoozed += self.snoozed.load(Ordering::Relaxed);
        sum.outages += self.outages.load(Ordering::Relaxed);
        sum.dead += self.dead.load(Ordering::Relaxed);
        sum.released += self.released.load(Ordering::Relaxed);
        sum.lost += self.lost.load(Ordering::Relaxed);
        sum.looks += self.looks.load(Ordering::Acquire);
        sum.readings += self.readings.load(Ordering::Acquire);
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
