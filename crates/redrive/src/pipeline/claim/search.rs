//! Search: whether a claim reads the whole index of its queue or windows of it. Pure.
//!
//! Most queues are short, so a claim reads them whole. In a large queue it reads
//! [windows](super::windows). A process measures the queue before its first claim, again when it has
//! grown or after a claim that took long, and a large one every few seconds, to learn the newest id.

use std::time::Duration;

use crate::pipeline::claim::demand::Fill;
use crate::pipeline::claim::mark::{Scan, between};
use crate::pipeline::claim::measure::Measured;
use crate::pipeline::claim::windows::{Look, SETTLED, TAIL, Windows};
use crate::sync::Instant;

/// The size of all ready jobs, with dead rows, up to which a claim reads its whole queue: as much as
/// takes a few milliseconds.
pub(crate) const SMALL_BYTES: i64 = 2 * 1024 * 1024;
/// After a claim that took longer, the queue is measured again: it read much, or leaves many dead rows to the next one.
const SLOW: Duration = Duration::from_millis(2);
/// How often to measure a queue that claims read whole.
const MEASURE_EVERY: Duration = Duration::from_millis(100);

/// Where the claims of one process on one queue search.
#[derive(Debug)]
pub(crate) struct Search {
    /// The windows of a large queue. `None`: claims read the whole queue.
    windows: Option<Windows>,
    /// When the queue was measured, or all of it was read in a moment. `None`: it must be measured.
    measured_at: Option<Instant>,
    /// The size of the queue when it was measured.
    bytes: i64,
    /// The size above which the next measurement looks for ranks.
    ranks_above: i64,
}

impl Search {
    pub(crate) fn new() -> Search {
        Search {
            windows: None,
            measured_at: None,
            bytes: 0,
            ranks_above: SMALL_BYTES,
        }
    }

    /// Returns whether to measure the queue, and above which size to look for ranks then. `bytes` is the size of all queues,
    /// as far as known.
    pub(crate) fn wants_measure(&mut self, now: Instant, bytes: i64) -> Option<i64> {
        if bytes > SMALL_BYTES.max(self.bytes.saturating_mul(2)) {
            self.measure_again(now);
        }
        let is_old = |at| self.windows.is_some() && now.saturating_duration_since(at) >= SETTLED;
        let is_due = self.measured_at.is_none_or(is_old);
        is_due.then_some(self.ranks_above)
    }

    /// Lets a queue that is read whole be measured again, unless it has just been.
    fn measure_again(&mut self, now: Instant) {
        let is_old = |at| now.saturating_duration_since(at) >= MEASURE_EVERY;
        if self.windows.is_none() && self.measured_at.is_some_and(is_old) {
            *self = Search::new();
        }
    }

    /// Records the size of the queue. `None`: it could not be measured, and the next attempt does less.
    pub(crate) fn measured(&mut self, now: Instant, found: Option<&Measured>) {
        // Its ranks are known, or looking for them failed.
        self.ranks_above = i64::MAX;
        let Some(found) = found else { return };
        (self.bytes, self.measured_at) = (found.bytes, Some(now));
        if self.windows.is_some() || found.bytes > SMALL_BYTES {
            let settled = found.newest_id.saturating_sub(TAIL).max(0);
            let new = || Windows::new(now, settled);
            let windows = self.windows.get_or_insert_with(new);
            windows.measured(found.newest_id, &found.ranks);
        }
    }

    /// Returns the scans of the next claims.
    pub(crate) fn scans(&self, now: Instant) -> Vec<Scan> {
        let windows = self.windows.as_ref();
        windows.map_or(vec![Scan::Full], |windows| windows.scans(now))
    }

    /// Returns what a claim with this scan reads, starting `lead` ids after the marks.
    pub(crate) fn look(&mut self, scan: Scan, lead: i64) -> Look {
        match (&mut self.windows, scan) {
            (None, _) => Look::new(Scan::Full, between([])),
            (Some(windows), Scan::Gaps) => windows.gaps(),
            (Some(windows), Scan::Sweep) => windows.below(),
            (Some(windows), Scan::Full | Scan::FromMarks) => windows.front(lead),
        }
    }

    /// Whether the marks have not reached the settled ids, so that the next claim may find jobs.
    pub(crate) fn is_behind(&self) -> bool {
        self.windows.as_ref().is_some_and(Windows::is_behind)
    }

    /// Returns the time until a claim may read what lies below the marks. `None`: claims read the whole queue.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        let windows = self.windows.as_ref()?;
        Some(match windows.is_behind() {
            true => Duration::ZERO,
            false => windows.sweep_in(now).unwrap_or_default(),
        })
    }

    /// Records a claim: when it started, how long it took, whether it was full, and its jobs as (rank, id) in claim
    /// order. Records nothing if another fetcher has changed the search meanwhile.
    pub(crate) fn note(
        &mut self,
        look: &Look,
        asked_at: Instant,
        took: Duration,
        got: Fill,
        claimed: impl Iterator<Item = (i32, i64)>,
    ) {
        match (&mut self.windows, look.scan) {
            (None, Scan::Full) if took > SLOW => self.measure_again(asked_at + took),
            (Some(windows), Scan::FromMarks) => {
                windows.note_front(look, asked_at, took, got, claimed);
            }
            (Some(windows), Scan::Gaps) => {
                windows.note_gaps(asked_at, claimed);
                if took > SLOW {
                    self.ranks_above = SMALL_BYTES;
                }
            }
            (Some(windows), Scan::Sweep) => {
                if !windows.note_sweep(look, asked_at, took, got, claimed.count()) {
                    (self.windows, self.measured_at) = (None, Some(asked_at));
                }
            }
            (None, _) | (Some(_), Scan::Full) => {}
        }
    }

    /// Records a claim that failed.
    pub(crate) fn note_failure(&mut self, look: &Look, asked_at: Instant, took: Duration) {
        match &mut self.windows {
            None if look.scan == Scan::Full && took > SLOW => self.measure_again(asked_at + took),
            None => {}
            Some(windows) => windows.note_failure(look, asked_at, took),
        }
    }
}

#[cfg(test)]
mod tests;
