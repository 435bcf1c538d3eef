//! Shared parts of the benchmarks: running a scenario, its report, its jobs, and the baseline.
//!
//! A scenario is one file next to this folder, listed in `scenarios.rs`. `cargo xtask bench` gives
//! it an empty database on a temporary server. It measures the bare server and redrive in turn,
//! because machines are noisy: the claims are ratios. A scenario fails when jobs are lost or left.

mod bench;
mod drain;
mod baseline;
mod meter;
mod payload;
mod worker_process;
mod measurement;

pub use baseline::{Baseline, BaselineKeys};
pub use bench::{Bench, Child, Scenario, main};
pub use drain::{
    Drained, Ran, assert_empty, drain, drain_one_kind, drain_with, fill, fill_kinds, fill_with,
    handle_kinds, until_ended,
};
pub use measurement::{Figure, Measurement, Samples, Target, shown};
pub use meter::{Meter, Usage};
pub use payload::{BenchPayload, KINDS, Kind};
pub use worker_process::{PausedQueue, WORKER_PROCESS, drain_with_processes, until_drained};

/// The result of a scenario or a part of it.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Times work on `count` items and returns the rate per second.
///
/// # Errors
///
/// Those of the work.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
pub fn rate(count: usize, work: impl FnOnce() -> Outcome) -> Outcome<f64> {
    let start = std::time::Instant::now();
    work()?;
    Ok(count as f64 / start.elapsed().as_secs_f64())
}
