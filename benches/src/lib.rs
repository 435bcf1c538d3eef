//! What the benchmarks share: how a scenario is run, what it reports, the jobs it moves, and the
//! floor it is measured against.
//!
//! A scenario is one file beside this folder, named by its noun, with one public function; it is
//! listed in `scenarios.rs`. `cargo xtask bench` gives it an empty database on a server of its own.
//! It measures what the bare server does and what redrive does by turns, in one run, because
//! machines are noisy: ratios are what is claimed, rates are for people. It fails when jobs are
//! lost or left, so that a wrong number is no number.

mod bench;
mod drain;
mod floor;
mod meter;
mod parcel;
mod race;
mod row;

pub use bench::{Bench, Child, Scenario, main};
pub use drain::{
    Drained, Ran, assert_empty, drain, drain_with, fill, fill_kinds, handle_kinds, until_ended,
};
pub use floor::{Floor, FloorKeys};
pub use meter::{Meter, Took};
pub use parcel::{KINDS, Kind, Parcel};
pub use race::{Gate, RACER, race, until_drained};
pub use row::{Figure, Row, Samples, Target};

/// The result of everything here that can fail.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Runs something that moves `count` things; answers how many a second.
///
/// # Errors
/// What the work answers.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
pub fn rate(count: usize, work: impl FnOnce() -> Outcome) -> Outcome<f64> {
    let start = std::time::Instant::now();
    work()?;
    Ok(count as f64 / start.elapsed().as_secs_f64())
}
