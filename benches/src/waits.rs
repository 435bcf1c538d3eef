//! How long something takes, in milliseconds, and the percentiles of it.

use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
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

/// Returns a handler that sends how long each job waited, in milliseconds. The number of its payload is the time of its
/// enqueue since `start`, in nanoseconds.
pub fn send_waits(
    start: Instant,
    waits: Sender<f64>,
) -> impl Fn(&Job<BenchPayload>) -> Result<(), Failure> + Send + Sync + 'static {
    move |job| {
        let sent = Duration::from_nanos(job.payload().id);
        let wait = start.elapsed().saturating_sub(sent);
        // The receiver lives until the worker has stopped.
        _ = waits.send(wait.as_secs_f64() * 1e3);
        Ok(())
    }
}
