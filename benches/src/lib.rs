//! Shared parts of the benchmarks: running a scenario, its report, its jobs, and the baseline.
//!
//! A scenario is one file next to this folder, listed in `scenarios.rs`. `cargo xtask bench` gives
//! it an empty database on a temporary server. It measures the bare server and redrive in turn,
//! because machines are noisy: the claims are ratios. A scenario fails when jobs are lost or left.

#![allow(clippy::missing_errors_doc, reason = "every error ends the scenario")]

mod measurement;
mod payload;
mod waits;
mod bench;
mod process;
mod meter;
mod drain;
mod baseline;
mod worker_process;

use std::time::{Duration, Instant};

pub use baseline::Baseline;
pub use bench::{Bench, Child, Scenario, main, print_error};
pub use drain::{
    Drained, Ran, assert_empty, drain, drain_one_kind, drain_with, fill, fill_kinds, fill_with,
    handle_kinds, insert_rows, until_drained, until_ended,
};
pub use measurement::{Figure, Measurement, Samples, Target, shown};
pub use meter::{Usage, metered};
pub use payload::{BenchPayload, Kind};
pub use process::Process;
pub use waits::{Waits, send_waits};
pub use worker_process::{WORKER_PROCESS, drain_with_processes, pause, resume};

/// The result of a scenario or a part of it.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Times work on `count` items and returns the rate per second.
pub fn rate(count: usize, work: impl FnOnce() -> Outcome) -> Outcome<f64> {
    let start = Instant::now();
    work()?;
    Ok(rate_of(count, start.elapsed()))
}

/// Returns the items per second.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
pub fn rate_of(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// Works on all items at once, with one thread for each.
pub fn in_threads<T: Send>(
    items: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> Outcome + Sync,
) -> Outcome {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = items
            .into_iter()
            .map(|item| scope.spawn(move || work(item)))
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
    })
}
