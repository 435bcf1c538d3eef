//! The options of a redrive run: its rate, its canary, and the deaths it tolerates.

use crate::dlq::prelude::*;
use crate::dlq::redrive::RedriveOptions;

/// The default rate of a run, in letters per second.
const DEFAULT_RATE: u32 = 100;
/// The default share of letters that may die again, in percent.
const DEFAULT_TOLERATED: u8 = 10;

/// The options of a run: pace, canary, tolerated deaths, and how its letters are redriven.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct RunOptions {
    pub(super) letters: RedriveOptions,
    pub(super) only: Option<Vec<JobId>>,
    /// The letters per second; `None`: unthrottled.
    pub(super) rate: Option<u32>,
    pub(super) canary: u32,
    /// The percentage of letters that may die again.
    pub(super) tolerated: u8,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions::new()
    }
}

impl RunOptions {
    /// Returns the defaults: 100 letters per second, no canary, and a halt when more than 10 % of
    /// at least 20 outcomes are deaths.
    pub fn new() -> RunOptions {
        RunOptions {
            letters: RedriveOptions::new(),
            only: None,
            rate: Some(DEFAULT_RATE),
            canary: 0,
            tolerated: DEFAULT_TOLERATED,
        }
    }

    setters! {
        /// Sets the queue, priority and attempts that the letters are redriven with.
        pub fn letters(self, letters: RedriveOptions) => self.letters = letters;

        /// Sets the letters per second, 1 to 1,000,000. Defaults to 100.
        pub fn rate(self, per_second: u32) => self.rate = Some(per_second);

        /// Sends the letters as fast as the database accepts them, and fewer, down to 300 a second, while live jobs of a queue
        /// with workers wait more than twice as long as at the start of the run.
        pub fn unthrottled(self) => self.rate = None;

        /// Sends this many letters first and continues only if they recover.
        ///
        /// Two larger stages follow, of four and sixteen times as many letters, then the rest at the
        /// full rate. The run halts when more than the [tolerated](RunOptions::tolerate) share of a
        /// stage dies again. Defaults to 0: no canary.
        pub fn canary(self, letters: u32) => self.canary = letters;

        /// Selects only these of the matching letters, such as those that passed
        /// [validation](crate::dlq::Dlq::validate_each). Defaults to all.
        ///
        /// The filter of the run does not contain the ids, so that it stays readable.
        pub fn only(self, letters: impl IntoIterator<Item = JobId>) =>
            self.only = Some(letters.into_iter().collect());

        /// Sets the percentage of letters that may die again, 0 to 100. Defaults to 10. With 100, all letters are sent.
        ///
        /// The run halts when more of at least 20 outcomes are deaths: of all outcomes at first, later
        /// of the last 200. A canary and its ramp halt with fewer, because their stages are samples themselves.
        pub fn tolerate(self, percent: u8) => self.tolerated = percent;
    }
}
