//! What the benchmarks share: the job they move, and a clock.
//!
//! Timings decide nothing here: they are printed as ratios to what the server does without
//! redrive, measured in the same run, because machines are noisy.

use std::time::Instant;

use redrive::Payload;
use serde::{Deserialize, Serialize};

/// A payload of about 130 bytes.
#[derive(Debug, Serialize, Deserialize)]
pub struct Parcel {
    /// Its number.
    pub id: u64,
    /// Ballast.
    pub pad: String,
}

impl Payload for Parcel {
    const KIND: &'static str = "parcel";
}

impl Parcel {
    /// The first `count` parcels.
    pub fn many(count: usize) -> Vec<Parcel> {
        (0..count as u64)
            .map(|id| Parcel {
                id,
                pad: "x".repeat(100),
            })
            .collect()
    }
}

/// Runs something that moves `count` things; answers how many a second.
///
/// # Errors
/// What the work answers.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
pub fn rate<E>(count: usize, work: impl FnOnce() -> Result<(), E>) -> Result<f64, E> {
    let start = Instant::now();
    work()?;
    Ok(count as f64 / start.elapsed().as_secs_f64())
}
