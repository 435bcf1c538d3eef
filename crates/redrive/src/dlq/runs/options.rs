//! The options of a redrive run: its rate and its canary.

use std::num::NonZeroU32;

use crate::dlq::redrive::RedriveOptions;
use crate::error::{Error, Result};

/// The default rate of a run, in letters per second.
const DEFAULT_RATE: u32 = 100;
/// The highest rate, in letters per second.
const MAX_RATE: u32 = 1_000_000;

/// The pace of a run.
// Exhaustive: a run has a limit or it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// At most this many letters per second, up to 1,000,000.
    PerSecond(NonZeroU32),
    /// As fast as the database accepts them.
    Unthrottled,
}

impl Rate {
    /// Returns the rate as the statement takes it; `None` is unthrottled.
    pub(super) fn per_second(self) -> Result<Option<i32>> {
        match self {
            Rate::Unthrottled => Ok(None),
            Rate::PerSecond(rate) if rate.get() <= MAX_RATE => Ok(Some(rate.get().cast_signed())),
            Rate::PerSecond(rate) => Err(Error::invalid(format!(
                "the rate is {rate} letters per second; the limit is {MAX_RATE}"
            ))),
        }
    }
}

/// The options of a run: pace, canary, and how its letters are redriven.
///
/// ```
/// use redrive::dlq::RedriveOptions;
/// use redrive::dlq::runs::{Rate, RunOptions};
///
/// let options = RunOptions::new()
///     .canary(10)
///     .rate(Rate::Unthrottled)
///     .letters(RedriveOptions::new().priority(-10));
/// ```
#[derive(Clone, Debug)]
pub struct RunOptions {
    pub(super) letters: RedriveOptions,
    pub(super) rate: Rate,
    pub(super) canary: u32,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions::new()
    }
}

impl RunOptions {
    /// Returns the defaults: 100 letters per second, no canary.
    pub fn new() -> RunOptions {
        RunOptions {
            letters: RedriveOptions::new(),
            rate: NonZeroU32::new(DEFAULT_RATE).map_or(Rate::Unthrottled, Rate::PerSecond),
            canary: 0,
        }
    }

    /// Sets the queue, priority and attempts that the letters are redriven with.
    #[must_use]
    pub fn letters(mut self, letters: RedriveOptions) -> RunOptions {
        self.letters = letters;
        self
    }

    /// Sets the pace. Defaults to 100 letters per second.
    #[must_use]
    pub fn rate(mut self, rate: Rate) -> RunOptions {
        self.rate = rate;
        self
    }

    /// Sends this many letters first and continues only if they recover.
    ///
    /// Two larger stages follow, of four and sixteen times as many letters, then the rest at the
    /// full rate. The run halts when more than a tenth of a stage, or later of the latest outcomes,
    /// dies again. Defaults to 0: no canary, and the run never halts.
    #[must_use]
    pub fn canary(mut self, letters: u32) -> RunOptions {
        self.canary = letters;
        self
    }
}
