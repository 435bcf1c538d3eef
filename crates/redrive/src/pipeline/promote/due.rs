//! Due: where a promotion looks for jobs that are due. Pure.
//!
//! While a transaction holds the xmin horizon, vacuum cannot remove rows that promotions deleted, and
//! one that reads all due rows reads past them: 0.2 s for two million. Once a promotion of a table of
//! more than [16 MB](SMALL_PAGES) is slow, the worker therefore stores a mark of the queue, at which
//! the promotions of all processes start: when the last promoted job was due or, if nothing was left,
//! [5 s](SETTLED) ago, so that a job whose transaction commits within that time is above it.
//!
//! Marks are hints. A job can lie below the mark: its transaction committed late, another session had
//! locked it, or the clock of the server was set back. In 5 % of the time, promotions therefore read all
//! due rows.

use std::time::Duration;

use super::Promoted;
use crate::sync::Instant;

/// The size of the table up to which a promotion reads all due rows.
const SMALL_PAGES: i64 = 2048;
/// A promotion that took less for what it did not move is cheap.
const CHEAP: Duration = Duration::from_millis(5);
/// The time that moving a job takes.
const MOVING: Duration = Duration::from_micros(100);
/// A promotion that failed after more would fail again.
const LONG: Duration = Duration::from_millis(25);
/// When a job is presumed committed, and how often to store the mark.
const SETTLED: Duration = Duration::from_secs(5);
const SETTLED_MICROS: i64 = 5_000_000;
/// Promotions that read all due rows beyond a mark get one part in this many of the time.
const SHARE: u32 = 20;

/// A mark before every job, in microseconds since 1970 by the clock of the server, as all marks are.
const START: i64 = 0;
/// A mark after every job that is due. The statement replaces a mark in the future.
const FUTURE: i64 = 4_000_000_000_000_000;

/// The mark that a process stores, and when it does without.
#[derive(Debug, Default)]
pub(crate) struct DueSearch {
    /// The mark to store.
    mark: Option<i64>,
    stored_at: Option<Instant>,
    /// When a promotion next reads all due rows. `None`: each of them does, as no mark is needed.
    whole_at: Option<Instant>,
}

impl DueSearch {
    /// Whether the next promotion reads all due rows in spite of a mark.
    pub(crate) fn is_whole(&self, now: Instant) -> bool {
        self.whole_at.is_some_and(|at| at <= now)
    }

    /// Returns the size of the table up to which the next promotion starts at no mark.
    pub(crate) fn pages(&self, now: Instant) -> i64 {
        match self.is_whole(now) {
            true => i64::MAX,
            false => SMALL_PAGES,
        }
    }

    /// Records a promotion: when it started, how long it took and what it found. After one that read all due rows and
    /// was cheap, no mark is needed.
    pub(crate) fn note(&mut self, asked_at: Instant, took: Duration, found: &Promoted) {
        let has_mark = found.mark_micros > 0;
        let is_slow = took > CHEAP + MOVING * found.moved;
        if found.pages <= SMALL_PAGES {
            (self.mark, self.whole_at) = (None, None);
        } else if !has_mark && !is_slow {
            self.mark = self.whole_at.take().map(|_| START);
        } else {
            let last = found.last_micros.filter(|_| found.is_full());
            let mark = last.unwrap_or(found.now_micros - SETTLED_MICROS);
            // A lower one, of a promotion that read all and left some, is stored first.
            self.mark = self.mark.into_iter().chain([mark]).min();
            match has_mark {
                true => _ = self.whole_at.get_or_insert(asked_at + took),
                false => self.whole_at = Some(asked_at + took * SHARE),
            }
        }
    }

    /// Records a promotion that failed. One that exceeds the timeout must not be the next one again.
    pub(crate) fn note_failure(&mut self, asked_at: Instant, took: Duration) {
        if self.is_whole(asked_at) {
            self.whole_at = Some(asked_at + took * SHARE);
        } else if took > LONG {
            (self.mark, self.stored_at) = (Some(FUTURE), None);
            // Finds what was due until now. Soon, because perhaps the server was away.
            self.whole_at = Some(asked_at + took * 2);
        }
    }

    /// Returns the mark if it should be stored now.
    pub(crate) fn take_mark(&mut self, now: Instant) -> Option<i64> {
        let next_at = self.stored_at.map(|at| at + SETTLED);
        if next_at.is_some_and(|at| now < at) && self.mark != Some(START) {
            return None;
        }
        let mark = self.mark.take()?;
        self.stored_at = Some(now);
        Some(mark)
    }

    /// Returns the time until a promotion reads all due rows in spite of a mark. `None`: no mark is needed.
    pub(crate) fn whole_in(&self, now: Instant) -> Option<Duration> {
        let whole_at = self.whole_at?;
        Some(whole_at.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests;
