//! How long something takes, in milliseconds, and the percentiles of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use redrive::{Failure, Job};

use crate::{BenchPayload, Samples};

/// The times of several rounds.
#[derive(Clone, Debug, Default)]
pub struct Waits(Vec<Samples>);

impl Waits {
    /// Adds the times of a round.
    pub fn push(&mut self, round: Vec<f64>) {
        self.0.push(round.into_iter().collect());
    }

    /// Returns the same part of each round: half of it is `0.5`.
    pub fn at(&self, part: f64) -> Samples {
        self.0.iter().map(|round| round.at(part)).collect()
    }
}

impl From<Vec<f64>> for Waits {
    fn from(round: Vec<f64>) -> Waits {
        Waits(vec![round.into_iter().collect()])
    }
}

/// What handlers record. Clones share one list.
#[derive(Clone, Debug)]
pub struct Recorder<T>(Arc<Mutex<Vec<T>>>);

impl<T> Default for Recorder<T> {
    fn default() -> Recorder<T> {
        Recorder(Arc::default())
    }
}

impl<T> Recorder<T> {
    /// Adds a record.
    pub fn push(&self, one: T) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(one);
    }

    /// Returns the number of records.
    pub fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Returns the records, and removes them.
    pub fn take(&self) -> Vec<T> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut all)
    }
}

/// Returns a handler that records how long each job waited, in milliseconds. The number of its payload is the time of
/// its enqueue since `start`, in nanoseconds.
pub fn record_waits(
    start: Instant,
    waits: &Recorder<f64>,
) -> impl Fn(&Job<BenchPayload>) -> Result<(), Failure> + Send + Sync + 'static {
    let waits = waits.clone();
    move |job| {
        let sent = Duration::from_nanos(job.payload().id);
        let wait = start.elapsed().saturating_sub(sent);
        waits.push(wait.as_secs_f64() * 1e3);
        Ok(())
    }
}
