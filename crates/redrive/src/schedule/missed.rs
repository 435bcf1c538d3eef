//! Decides which ticks that are due become jobs, and which are missed. Pure.

use std::time::Duration;

use jiff::Timestamp;

use crate::dlq::prelude::*;
use crate::schedule::rhythm::{Rhythm, micros};

/// A tick that is older than this is missed, even if it is the latest.
const MISSED_AFTER: Duration = Duration::from_mins(1);
/// How many ticks run at once with [`Missed::All`], and how old they may be.
const MAX_TICKS: usize = 100;
const MAX_AGE: Duration = Duration::from_hours(7 * 24);
/// How many ticks are counted exactly. Of more, only the newest are computed.
const MAX_COUNTED: usize = 10_000;

words! {
    /// The policy for ticks that a schedule missed, because no worker ran or it was paused.
    ///
    /// A tick is missed if the next one is due as well, or if it is more than a minute late.
    #[derive(Default)]
    pub enum Missed is "policy for missed ticks" {
        /// Runs none of them.
        Skip = "skip",
        /// Runs the latest.
        #[default]
        Once = "once",
        /// Runs each, oldest first, but at most the newest 100, of at most 7 days. The latest always runs.
        All = "all",
    }
}

/// The effect of a tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The ticks that become jobs, oldest first.
    pub(crate) run: Vec<Timestamp>,
    /// How many due ticks do not; with more than 10,000 due ticks, at least as many.
    pub(crate) missed: u64,
    /// The latest of these.
    pub(crate) missed_at: Option<Timestamp>,
    /// The next tick, which is not due.
    pub(crate) next: Timestamp,
}

/// Plans the tick `first`, if it is due at `now`, with all others that have become due since.
pub(crate) fn plan(
    rhythm: &Rhythm,
    policy: Missed,
    first: Timestamp,
    now: Timestamp,
) -> Result<Plan> {
    let (mut missed, next) = dues(rhythm, first, now)?;
    let newest = |count| missed.len().saturating_sub(count);
    let since = |age| {
        let start = now.as_microsecond() - micros(age);
        missed.partition_point(|tick| tick.as_microsecond() < start)
    };
    let first = match policy {
        Missed::Skip => since(MISSED_AFTER).max(newest(1)),
        Missed::Once => newest(1),
        Missed::All => since(MAX_AGE).clamp(newest(MAX_TICKS), newest(1)),
    };
    let run = missed.split_off(first);
    Ok(Plan {
        run,
        missed: missed.len() as u64,
        missed_at: missed.last().copied(),
        next,
    })
}

/// Returns the ticks from `first` to `now`, oldest first, and the next one. Of too many, it returns the newest: it searches by
/// halves for a start with enough of them, so that neither time nor memory grows with the time without a worker.
fn dues(rhythm: &Rhythm, first: Timestamp, now: Timestamp) -> Result<(Vec<Timestamp>, Timestamp)> {
    let (mut start, mut too_many, mut too_few) = (first, first, now);
    loop {
        let mut next = match start == first {
            true => first,
            false => rhythm.next_after(first, start)?,
        };
        let mut dues = Vec::new();
        while next <= now && dues.len() < 2 * MAX_COUNTED {
            dues.push(next);
            next = rhythm.next_after(next, next)?;
        }
        match next <= now {
            true => too_many = start,
            false if start == first || dues.len() >= MAX_COUNTED => return Ok((dues, next)),
            false => too_few = start,
        }
        start = too_many + too_many.duration_until(too_few) / 2;
    }
}

#[cfg(test)]
mod tests;
