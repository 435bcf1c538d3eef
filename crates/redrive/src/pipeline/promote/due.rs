//! Due: where a promotion looks for jobs that are due. Pure.
//!
//! While a transaction holds the xmin horizon, vacuum cannot remove rows that promotions deleted, and
//! one that reads all due rows reads past them: 0.2 s for two million. Once a promotion of a table of
//! more than [16 MB](SMALL_PAGES) is slow, the worker therefore stores a mark of the queue, at which
//! the promotions of all processes start: when the last promoted job was due or, if nothing was left,
//! [5 s](SETTLED) ago, so that a job whose transaction commits within that time is above it.
//!
//! Marks are hints. A job can lie below the mark: its transaction committed late, another session had
//! locked it, or the clock of the server was set back. *Sweeps* find it: they read the pages of the
//! table in [windows](WINDOW), over and over, in 5 % of the time. A sweep reads dead rows several times
//! as fast as the index, and its cost does not depend on where they lie.

use std::time::Duration;

use crate::sync::Instant;

/// The size of the table up to which a promotion reads all due rows.
pub(crate) const SMALL_PAGES: i64 = 2048;
/// The pages of a window.
pub(crate) const WINDOW: i64 = 1024;
/// A promotion that took less for what it did not move is cheap.
const CHEAP: Duration = Duration::from_millis(5);
/// The time that moving a job takes.
const MOVING: Duration = Duration::from_micros(100);
/// A promotion that failed after more would fail again.
const LONG: Duration = Duration::from_millis(25);
/// When a job is presumed committed, and how often to store the mark.
const SETTLED: Duration = Duration::from_secs(5);
const SETTLED_MICROS: i64 = 5_000_000;
/// Sweeps get one part in this many of the time.
const SHARE: u32 = 20;

/// A mark before every job, in microseconds since 1970 by the clock of the server, as all marks are.
const START: i64 = 0;
/// A mark after every job that is due. The statement replaces a mark in the future.
const FUTURE: i64 = 4_000_000_000_000_000;

/// The result of a promotion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Promoted {
    pub(crate) moved: u32,
    /// When the last job was due, if there may be more.
    pub(crate) last: Option<i64>,
    /// Whether it started at a mark.
    pub(crate) has_mark: bool,
    /// The time of the statement.
    pub(crate) now: i64,
    /// The size of the table.
    pub(crate) pages: i64,
    /// The time until the next job is due. `None`: none is due within the time asked for.
    pub(crate) next_due: Option<Duration>,
}

/// The result of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Swept {
    /// Whether it moved as many jobs as it may, so that its window may have more.
    pub(crate) may_have_more: bool,
    /// The size of the table.
    pub(crate) pages: i64,
}

/// The mark that a process stores, and its sweeps.
#[derive(Debug, Default)]
pub(crate) struct DueSearch {
    /// The mark to store.
    mark: Option<i64>,
    stored_at: Option<Instant>,
    /// `None`: promotions need no mark.
    sweep: Option<Sweep>,
}

#[derive(Debug)]
struct Sweep {
    /// The next page.
    page: i64,
    due_at: Instant,
    pass_took: Duration,
}

impl Sweep {
    fn new(due_at: Instant) -> Sweep {
        Sweep {
            page: 0,
            due_at,
            pass_took: Duration::ZERO,
        }
    }
}

impl DueSearch {
    /// Records a promotion: when it started, how long it took and what it found.
    pub(crate) fn note(&mut self, asked_at: Instant, took: Duration, found: Promoted) {
        let is_slow = took > CHEAP + MOVING * found.moved;
        if found.pages <= SMALL_PAGES || !found.has_mark && !is_slow {
            (self.mark, self.sweep) = (None, None);
            return;
        }
        self.mark = Some(found.last.unwrap_or(found.now - SETTLED_MICROS));
        self.sweep.get_or_insert(Sweep::new(asked_at + took));
    }

    /// Records a promotion that failed. One that exceeds the timeout must not be the next one again.
    pub(crate) fn note_failure(&mut self, asked_at: Instant, took: Duration) {
        if took > LONG {
            // The first pass of the sweep finds what was due until now.
            (self.mark, self.stored_at) = (Some(FUTURE), None);
            self.sweep = Some(Sweep::new(asked_at + took));
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

    /// Returns the time until a sweep may read. `None`: no sweep is needed.
    pub(crate) fn sweep_in(&self, now: Instant) -> Option<Duration> {
        let sweep = self.sweep.as_ref()?;
        Some(sweep.due_at.saturating_duration_since(now))
    }

    /// Returns the first page of the window that a sweep reads now.
    pub(crate) fn window(&self, now: Instant) -> Option<i64> {
        let sweep = self.sweep.as_ref().filter(|it| it.due_at <= now)?;
        Some(sweep.page)
    }

    /// Records a sweep of the window: when it started, how long it took, and what it found. After a pass that was
    /// cheap, no mark is needed.
    pub(crate) fn note_sweep(&mut self, asked_at: Instant, took: Duration, found: Swept) {
        let Some(sweep) = &mut self.sweep else {
            return;
        };
        sweep.pass_took += took;
        if found.may_have_more {
            sweep.due_at = asked_at;
            return;
        }
        sweep.due_at = asked_at + took * SHARE;
        if sweep.page + WINDOW < found.pages {
            sweep.page += WINDOW;
        } else if sweep.pass_took < CHEAP {
            (self.mark, self.sweep) = (Some(START), None);
        } else {
            *sweep = Sweep::new(sweep.due_at);
        }
    }

    /// Records a sweep that failed. It is repeated later.
    pub(crate) fn note_failed_sweep(&mut self, asked_at: Instant, took: Duration) {
        if let Some(sweep) = &mut self.sweep {
            sweep.due_at = asked_at + took * SHARE;
        }
    }
}

#[cfg(test)]
mod tests;
