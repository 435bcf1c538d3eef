//! Due: where a promotion looks for jobs that are due. Pure.
//!
//! While a transaction holds the xmin horizon, vacuum cannot remove rows that promotions deleted, and
//! one that reads all due rows reads past them: 0.2 s for two million. Once a promotion of a table of
//! more than [16 MB](SMALL_PAGES) is slow, the next one therefore starts at a mark: the last job that
//! was promoted or, if nothing was left, [5 s](SETTLED) ago, so that a job whose transaction commits
//! within that time is above it. If reading those seconds again takes too long, the mark passes them.
//!
//! Marks are hints. A job can lie below the mark: its transaction committed late, another session had
//! locked it, or the clock of the server was set back. *Sweeps* find it: they read the pages of the
//! table in [windows](WINDOW), over and over, in 5 % of the time. A sweep reads dead rows several times
//! as fast as the index, and its cost does not depend on where they lie.

use std::time::Duration;

use crate::sync::Instant;

/// The size of the table up to which a promotion reads all due rows.
const SMALL_PAGES: i64 = 2048;
/// The pages of a window.
pub(crate) const WINDOW: i64 = 1024;
/// A promotion that took less for what it did not move is cheap.
const CHEAP: Duration = Duration::from_millis(5);
/// The time that moving a job takes.
const MOVING: Duration = Duration::from_micros(100);
/// A promotion from a mark that took more passes the jobs that may still be committed.
const LONG: Duration = Duration::from_millis(25);
/// When a job is presumed committed, and how often to store the mark.
const SETTLED: Duration = Duration::from_secs(5);
const SETTLED_MICROS: i64 = 5_000_000;
/// Sweeps get one part in this many of the time.
const SHARE: u32 = 20;

/// A place in the order of promotions: when a job is due, in microseconds since 1970 by the clock of
/// the server, and its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) micros: i64,
    pub(crate) id: i64,
}

impl Place {
    /// Before every job.
    pub(crate) const START: Place = Place { micros: 0, id: 0 };
    /// After every job that is due. The statement replaces a mark in the future.
    const FUTURE: Place = Place {
        micros: 4_000_000_000_000_000,
        id: 0,
    };
}

/// The result of a promotion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Promoted {
    pub(crate) moved: u32,
    /// The last job, if there may be more.
    pub(crate) last: Option<Place>,
    /// The place after which it read.
    pub(crate) after: Place,
    /// The time of the statement by the clock of the server, in microseconds since 1970.
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

/// Where the promotions of one process look: at all due rows, or after a mark and in windows below it.
#[derive(Debug, Default)]
pub(crate) struct DueSearch {
    /// Whether a promotion has ended.
    is_known: bool,
    marked: Option<Marked>,
}

#[derive(Debug)]
struct Marked {
    mark: Place,
    /// When to store the mark.
    store_at: Instant,
    /// The next page to sweep.
    page: i64,
    sweep_at: Instant,
    pass_took: Duration,
}

impl Marked {
    fn new(now: Instant, mark: Place) -> Marked {
        Marked {
            mark,
            store_at: now,
            page: 0,
            sweep_at: now,
            pass_took: Duration::ZERO,
        }
    }
}

impl DueSearch {
    /// Returns the place after which the next promotion reads. `None`: the mark that another process has stored, if any.
    pub(crate) fn after(&self) -> Option<Place> {
        match &self.marked {
            Some(marked) => Some(marked.mark),
            None => self.is_known.then_some(Place::START),
        }
    }

    /// Records a promotion: when it started, how long it took and what it found. Returns whether the next one should
    /// follow at once, because no sweep will read the due rows below the mark of this one.
    pub(crate) fn note(&mut self, asked_at: Instant, took: Duration, found: Promoted) -> bool {
        let is_slow = took > CHEAP + MOVING * found.moved;
        let moment = |micros| Place { micros, id: 0 };
        let passed = match (found.last, took > LONG) {
            (Some(last), _) => last,
            (None, true) => moment(found.now),
            (None, false) => moment(found.now - SETTLED_MICROS),
        };
        let mark = passed.max(found.after);
        self.is_known = true;
        if found.pages <= SMALL_PAGES {
            self.marked = None;
            return found.after != Place::START;
        }
        if let Some(marked) = &mut self.marked {
            marked.mark = mark;
        } else if found.after > Place::START || is_slow {
            self.marked = Some(Marked::new(asked_at + took, mark));
        }
        false
    }

    /// Records a promotion that failed. One that exceeds the timeout must not be the next one again.
    pub(crate) fn note_failure(&mut self, asked_at: Instant, took: Duration) {
        if took > LONG {
            // The first pass of the sweep finds what was due until now.
            self.marked = Some(Marked::new(asked_at + took, Place::FUTURE));
        }
    }

    /// Returns the time until a sweep may read. `None`: no sweep is needed.
    pub(crate) fn sweep_in(&self, now: Instant) -> Option<Duration> {
        let marked = self.marked.as_ref()?;
        Some(marked.sweep_at.saturating_duration_since(now))
    }

    /// Returns the first page of the window that a sweep reads now.
    pub(crate) fn window(&self, now: Instant) -> Option<i64> {
        let marked = self.marked.as_ref().filter(|it| it.sweep_at <= now)?;
        Some(marked.page)
    }

    /// Records a sweep of the window: when it started, how long it took, and what it found. After a pass that was
    /// cheap, no mark is needed.
    pub(crate) fn note_sweep(&mut self, asked_at: Instant, took: Duration, found: Swept) {
        let Some(marked) = &mut self.marked else {
            return;
        };
        marked.pass_took += took;
        if found.may_have_more {
            marked.sweep_at = asked_at;
            return;
        }
        marked.sweep_at = asked_at + took * SHARE;
        if marked.page + WINDOW < found.pages {
            marked.page += WINDOW;
        } else if marked.pass_took < CHEAP {
            (self.is_known, self.marked) = (true, None);
        } else {
            marked.page = 0;
            marked.pass_took = Duration::ZERO;
        }
    }

    /// Records a sweep that failed. It is repeated later.
    pub(crate) fn note_failed_sweep(&mut self, asked_at: Instant, took: Duration) {
        if let Some(marked) = &mut self.marked {
            marked.sweep_at = asked_at + took * SHARE;
        }
    }

    /// Returns the mark if it should be stored now.
    pub(crate) fn mark_to_store(&mut self, now: Instant) -> Option<Place> {
        let marked = self.marked.as_mut()?;
        if marked.store_at > now || marked.mark == Place::FUTURE {
            return None;
        }
        marked.store_at = now + SETTLED;
        Some(marked.mark)
    }
}

#[cfg(test)]
mod tests;
