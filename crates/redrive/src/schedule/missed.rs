//! Decides which ticks that are due become jobs, and which are missed. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::dlq::prelude::*;
use crate::schedule::rhythm::{Rhythm, micros};

/// A tick that is older than this is missed, even if it is the latest.
const MISSED_AFTER: Duration = Duration::from_mins(1);
/// How many ticks run at once with [`Missed::All`], and how old they may be.
const MAX_TICKS: usize = 100;
const MAX_AGE: Duration = Duration::from_hours(7 * 24);
/// How many ticks are counted exactly. Of more, only the newest are computed.
const MAX_COUNTED: u64 = 10_000;

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
    let (most, max_age) = match policy {
        Missed::Skip => (1, MISSED_AFTER),
        // The latest, of any age.
        Missed::Once => (1, MAX_AGE),
        Missed::All => (MAX_TICKS, MAX_AGE),
    };
    // One more, because the newest of those that do not run is reported.
    let dues = dues(rhythm, most + 1, first, now)?;
    let latest = dues.newest.back().copied();
    let runs = |tick: &Timestamp| {
        let age = now.as_microsecond() - tick.as_microsecond();
        age <= micros(max_age) || (policy != Missed::Skip && Some(*tick) == latest)
    };
    let left_out = dues.newest.len().saturating_sub(most);
    let newest = dues.newest.iter().skip(left_out);
    let run: Vec<Timestamp> = newest.copied().filter(runs).collect();
    let is_missed = |tick: &&Timestamp| run.first().is_none_or(|first| *tick < first);
    Ok(Plan {
        missed: dues.count - run.len() as u64,
        missed_at: dues.newest.iter().rev().find(is_missed).copied(),
        run,
        next: dues.next,
    })
}

/// The ticks that are due.
struct Dues {
    /// The newest, oldest first.
    newest: VecDeque<Timestamp>,
    /// How many there are.
    count: u64,
    next: Timestamp,
}

/// Finds the newest of the ticks from `first` to `now`. Searches longer and longer times before `now`, so that it computes
/// not every tick after a long time without a worker.
fn dues(rhythm: &Rhythm, most: usize, first: Timestamp, now: Timestamp) -> Result<Dues> {
    let mut back = MISSED_AFTER;
    loop {
        let start = now
            .checked_sub(SignedDuration::from_micros(micros(back)))
            .unwrap_or(first);
        let is_whole = start <= first;
        let mut found = Dues {
            newest: VecDeque::new(),
            count: 0,
            next: match is_whole {
                true => first,
                false => rhythm.next_after(first, start)?,
            },
        };
        while found.next <= now {
            found.add(found.next, most);
            found.next = rhythm.next_after(found.next, found.next)?;
        }
        if is_whole || found.count >= MAX_COUNTED {
            return Ok(found);
        }
        back = back.saturating_mul(2);
    }
}

impl Dues {
    fn add(&mut self, tick: Timestamp, most: usize) {
        if self.newest.len() == most {
            self.newest.pop_front();
        }
        self.newest.push_back(tick);
        self.count += 1;
    }
}

#[cfg(test)]
mod tests;
