//! Policies: what a schedule redrives, for failures that pass with time.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::dlq::prelude::*;

/// What each tick of a [schedule](crate::schedule::Schedule::redrive) redrives: its oldest open letters that are due, and
/// whose unique keys no live job holds.
///
/// The [guide](crate::_guide::schedules) has an example.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[must_use]
#[non_exhaustive]
pub struct Policy<Letters = LetterFilter> {
    /// The filter of the letters.
    pub letters: Letters,
    /// The letters per tick.
    pub batch: u32,
    /// The generation at which a letter is left open.
    pub generations: u32,
    /// The factor by which the delay grows with each generation.
    pub growth: f64,
    /// Whether it redrives nothing, and counts the letters that it would redrive.
    pub counts_only: bool,
}

/// A policy, as the database stores it: its filter is the one that the SQL functions take.
pub type PolicyStatus = Policy<Box<RawValue>>;

impl Policy {
    /// Returns a policy for the open letters that the filter selects.
    ///
    /// Defaults: redrives 50 letters per tick, stops at 10 generations. Letters of a queue that is paused or whose breaker
    /// is open are left out, and a policy for one such queue waits and keeps its tick.
    pub fn new(letters: LetterFilter) -> Policy {
        Policy {
            letters,
            batch: 50,
            generations: 10,
            growth: 1.0,
            counts_only: false,
        }
    }

    setters! {
        /// Sets the letters per tick: 1 to 10,000. Defaults to 50.
        pub fn batch(self, batch: u32) => self.batch = batch;

        /// Sets the generation at which the policy leaves a letter open for an operator: 1 to 100,000. Defaults to 10.
        ///
        /// Redrives by operators count too.
        pub fn generations(self, most: u32) => self.generations = most;

        /// Sets the factor by which a letter's delay grows with each generation: 1 to 100. Defaults to 1, so that a letter is
        /// redriven at every tick.
        ///
        /// With 2 and hourly ticks, a letter that keeps dying is redriven after one hour, two hours, four hours, and so on. The
        /// first delay is the interval of the schedule, or one hour if it has a cron line; the longest is 7 days, or a longer
        /// interval.
        pub fn growth(self, growth: f64) => self.growth = growth;

        /// Redrives nothing: the history of the schedule and the audit log tell how many letters each tick would redrive.
        pub fn count_only(self) => self.counts_only = true;
    }

    /// Returns the filter as a parameter. `redrive.set_policy` checks the numbers.
    ///
    /// # Errors
    /// *Invalid* if the filter has a limit or `after`.
    pub(crate) fn filter(&self) -> Result<Json> {
        self.letters
            .unlimited("a policy limits its letters by its batch, not by its filter")
    }
}
