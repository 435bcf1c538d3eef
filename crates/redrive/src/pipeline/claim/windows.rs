//! Windows: how claims get past jobs that they must leave, at a bounded cost. Pure.
//!
//! A queue may begin with ten million jobs of kinds that this worker does not handle or that a
//! breaker holds back. While a transaction holds the xmin horizon, it may begin with as many rows that
//! claims deleted and vacuum cannot remove. One claim would read all of them. In a large
//! queue, the claims of the *front* therefore read at most a window of ids per rank. Ids grow, so the
//! windows start at marks: where the previous claim of this process ended. A claim that finds nothing
//! moves the marks past its windows. A window takes [2 to 10 ms](LONG) for what it reads.
//!
//! Marks are hints. Three rules keep a stale mark from starving a job:
//!
//! - **The sweep.** Other claims read the windows from the first id to the marks, over and over, in 5 %
//!   of the time. They find each job that a late commit, a retry or a release put below a mark. Errors
//!   and timeouts do not stop the sweep; they only narrow its windows.
//! - **Settled ids.** A claim that finds the end of the queue leaves the marks below the ids of the last
//!   [5 s](SETTLED), so that jobs of transactions that commit within that time are above them. In the
//!   first seconds of a process, these are the newest [4,096](TAIL) ids. If reading them
//!   again takes too long, the marks pass them.
//! - **Gaps.** The ranks without a mark are read whole, first of all once a [second](GAPS_EVERY) and
//!   whenever a claim was not full.
//!
//! Until the marks of a process reach the settled ids, jobs that arrive would wait for that. While its
//! windows have only jobs to leave, a front claim therefore also reads the newest ids, after the
//! windows.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::pipeline::claim::demand::Fill;
use crate::pipeline::claim::mark::{Part, Scan, between};
use crate::sync::Instant;

/// A window that took less is doubled, and one that took a tenth of it is eight times as wide then.
const SHORT: Duration = Duration::from_millis(4);
/// A window that took longer has jobs to leave. One without any row takes less, and what follows it comes in its order.
const LEAVING: Duration = Duration::from_millis(2);
/// A whole pass of the sweep that took less ends the windows: each claim may read as much.
const CHEAP: Duration = Duration::from_millis(1);
/// After a window that took n times as long, the next is 1 / (n + 1) as wide.
pub(crate) const LONG: Duration = Duration::from_millis(10);
/// The time that a claim takes for each of its jobs, apart from its windows.
const MOVING: Duration = Duration::from_micros(50);
pub(crate) const FIRST_WIDTH: i64 = 8192;
const MIN_WIDTH: i64 = 1024;
const MAX_WIDTH: i64 = 1 << 40;
/// How many of the newest ids a claim reads before its marks reach them.
pub(crate) const TAIL: i64 = 4096;
/// How often to read the ranks without a mark while claims are full.
const GAPS_EVERY: Duration = Duration::from_secs(1);
/// When the jobs of an id are presumed committed.
pub(crate) const SETTLED: Duration = Duration::from_secs(5);
/// The sweep gets one part in this many of the time.
const SHARE: u32 = 20;
/// The ranks of jobs without a priority: new ones and redriven ones.
const DEFAULT_RANKS: [i32; 2] = [0, 1];

/// The parts of the index that a claim reads.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) scan: Scan,
    pub(crate) parts: Vec<Part>,
    /// How many ids after the marks it starts.
    lead: i64,
    /// The end of a window of the sweep.
    end: i64,
}

impl Look {
    pub(crate) fn new(scan: Scan, parts: Vec<Part>) -> Look {
        Look {
            scan,
            parts,
            lead: 0,
            end: 0,
        }
    }
}

/// The windows of one process on one queue.
#[derive(Debug)]
pub(crate) struct Windows {
    /// By rank: the id up to which the front has left nothing.
    marks: BTreeMap<i32, i64>,
    /// The newest id of any job, and the one of the measurement before.
    newest: i64,
    settled: i64,
    width: Width,
    /// Whether the front reads the newest ids before its marks reach them.
    reads_tail: bool,
    /// When to read the gaps.
    gaps_at: Instant,
    sweep: Sweep,
}

/// The place of the sweep. It reads the same ids of all ranks in one window.
#[derive(Debug, Default)]
struct Sweep {
    /// Everything up to this id was read in this pass.
    at: i64,
    /// The end of the pass: the highest mark at its start. Marks that move on do not prolong it.
    top: i64,
    width: Width,
    pass_took: Duration,
    /// Whether the last window had jobs.
    finds: bool,
    /// When it may claim again. `None`: after the first claim of the front.
    due_at: Option<Instant>,
}

impl Windows {
    pub(crate) fn new(now: Instant, settled: i64) -> Windows {
        Windows {
            marks: BTreeMap::from(DEFAULT_RANKS.map(|rank| (rank, 0_i64))),
            newest: settled,
            settled,
            width: Width::default(),
            reads_tail: false,
            gaps_at: now,
            sweep: Sweep::default(),
        }
    }

    /// Records the newest id, and ranks that were found.
    pub(crate) fn measured(&mut self, newest: i64, ranks: &[i32]) {
        self.settled = std::mem::replace(&mut self.newest, newest);
        for &rank in ranks {
            self.marks.entry(rank).or_insert(0);
        }
    }

    /// Whether the marks have not reached the settled ids, so that the next claim may find jobs.
    pub(crate) fn is_behind(&self) -> bool {
        let mut marks = self.marks.values();
        marks.any(|mark| mark.saturating_add(self.width.0) < self.settled)
    }

    /// Returns the scans of the next claims.
    pub(crate) fn scans(&self, now: Instant) -> Vec<Scan> {
        let gaps = (self.gaps_at <= now).then_some(Scan::Gaps);
        let is_due = self.sweep_in(now) == Some(Duration::ZERO);
        let before = gaps.into_iter().chain(is_due.then_some(Scan::Sweep));
        before.chain([Scan::FromMarks]).collect()
    }

    /// Returns the time until the sweep may claim. `None`: the front comes first.
    pub(crate) fn sweep_in(&self, now: Instant) -> Option<Duration> {
        let due_at = self.sweep.due_at?;
        Some(due_at.saturating_duration_since(now))
    }

    /// Returns the ranks between those with marks.
    pub(crate) fn gaps(&self) -> Look {
        Look::new(Scan::Gaps, between(self.marks.keys().copied()))
    }

    /// Records a claim of the gaps and its jobs as (rank, id). Their ranks get marks at their first jobs.
    pub(crate) fn note_gaps(
        &mut self,
        asked_at: Instant,
        claimed: impl Iterator<Item = (i32, i64)>,
    ) {
        for (rank, id) in claimed {
            self.marks.entry(rank).or_insert(id);
        }
        self.gaps_at = asked_at + GAPS_EVERY;
    }

    /// Returns what the next claim of the front reads, starting `lead` ids after the marks.
    ///
    /// When several workers claim full batches, the ids right after one worker's mark are locked or
    /// just deleted by the others. A lead of one batch per other worker lets them step past each
    /// other. A sweep finds what lies between.
    pub(crate) fn front(&self, lead: i64) -> Look {
        let mut parts = Vec::with_capacity(2 * self.marks.len());
        for (&rank, &mark) in &self.marks {
            let after = mark.saturating_add(lead);
            let end = after.saturating_add(self.width.0);
            let is_last = end >= self.settled;
            let to = if is_last { i64::MAX } else { end };
            parts.push(Part { rank, after, to });
            if !is_last && self.reads_tail {
                let after = end.max(self.newest - TAIL);
                let to = i64::MAX;
                parts.push(Part { rank, after, to });
            }
        }
        Look {
            lead,
            ..Look::new(Scan::FromMarks, parts)
        }
    }

    /// Records a claim of the front: when it started, how long it took, whether it was full, and its jobs as (rank, id).
    ///
    /// A claim may return fewer jobs than its windows have, because of the size of their payloads. It moves the marks of
    /// the ranks before its first job past their windows, and that of a job to it.
    pub(crate) fn note_front(
        &mut self,
        look: &Look,
        asked_at: Instant,
        took: Duration,
        got: Fill,
        claimed: impl Iterator<Item = (i32, i64)>,
    ) {
        self.sweep.due_at.get_or_insert(asked_at);
        if got == Fill::Partial {
            self.gaps_at = asked_at;
            // The slots have nothing else to do.
            if self.sweep.finds {
                self.sweep.due_at = Some(asked_at);
            }
        }
        // A rank without a window is read to its end.
        let windows = look.parts.iter().filter(|part| part.to < i64::MAX);
        let ends: BTreeMap<i32, i64> = windows.map(|part| (part.rank, part.to)).collect();
        let (mut jobs, mut first_rank, mut last_rank) = (0, None, i32::MAX);
        for (rank, id) in claimed {
            jobs += 1;
            last_rank = rank;
            let passed = match (ends.get(&rank), got) {
                // One of the newest.
                (Some(end), _) if id > *end => continue,
                (Some(_), _) | (None, Fill::Full) => id,
                (None, Fill::Partial) => id.min(self.settled),
            };
            first_rank.get_or_insert(rank);
            let mark = self.marks.entry(rank).or_insert(0);
            *mark = passed.max(*mark);
        }
        let read_below = first_rank.unwrap_or(match got {
            // It ended with the newest ids of this rank, and read nothing of those after it.
            Fill::Full => last_rank.saturating_add(1),
            Fill::Partial => i32::MAX,
        });
        // The ids before the lead were not read.
        if look.lead == 0 {
            let end = match first_rank.is_none() && took > LONG {
                true => self.newest,
                false => self.settled,
            };
            for (rank, mark) in self.marks.range_mut(..read_below) {
                let read = ends.get(rank).copied().unwrap_or(end);
                *mark = read.max(*mark);
            }
        }
        let has_passed = first_rank.is_none() || ends.range(..read_below).next().is_some();
        let reading = took.saturating_sub(MOVING * jobs);
        // Whether it read a whole window. Reading to the end shows only that the width is too large.
        let has_read = !ends.is_empty() && (has_passed || got == Fill::Partial);
        if has_read || has_passed && reading > LONG {
            self.width.adapt(reading);
        }
        self.reads_tail = has_passed && reading > LEAVING && self.is_behind();
    }

    /// Records a claim that failed after this time.
    pub(crate) fn note_failure(&mut self, look: &Look, asked_at: Instant, took: Duration) {
        // A quick failure says nothing of the window.
        let reading = took.max(SHORT);
        if look.scan == Scan::Sweep {
            self.sweep.width.adapt(reading);
            self.sweep.due_at = Some(asked_at + took * SHARE);
        } else {
            self.width.adapt(reading);
            self.reads_tail &= took <= LONG;
        }
    }

    /// Returns what the next claim of the sweep reads.
    pub(crate) fn below(&mut self) -> Look {
        let at = self.sweep.at;
        if at == 0 {
            self.sweep.top = self.marks.values().copied().max().unwrap_or(0);
        }
        let end = at.saturating_add(self.sweep.width.0).min(self.sweep.top);
        let parts = self.marks.iter().map(|(&rank, &mark)| Part {
            rank,
            after: at,
            to: end.min(mark),
        });
        let parts = parts.filter(|part| part.after < part.to).collect();
        Look {
            end,
            ..Look::new(Scan::Sweep, parts)
        }
    }

    /// Records a claim of the sweep and the number of its jobs. One that was full left jobs in its window, so the next
    /// one reads it again at once. Returns whether windows are still needed: not after a whole pass that was cheap.
    pub(crate) fn note_sweep(
        &mut self,
        look: &Look,
        asked_at: Instant,
        took: Duration,
        got: Fill,
        jobs: usize,
    ) -> bool {
        self.sweep.pass_took += took;
        self.sweep.finds = jobs > 0;
        if got == Fill::Full {
            self.sweep.due_at = Some(asked_at);
            return true;
        }
        self.sweep.due_at = Some(asked_at + took * SHARE);
        self.sweep.at = look.end;
        let is_last = look.end >= self.sweep.top;
        if jobs == 0 && !(is_last && took < LONG) {
            self.sweep.width.adapt(took);
        }
        if !is_last {
            return true;
        }
        let is_needed = self.sweep.pass_took >= CHEAP || self.is_behind();
        self.sweep.at = 0;
        self.sweep.pass_took = Duration::ZERO;
        is_needed
    }
}

/// How many ids of a rank a window has. The front and the sweep have their own, because they read different rows.
#[derive(Debug)]
struct Width(i64);

impl Default for Width {
    fn default() -> Width {
        Width(FIRST_WIDTH)
    }
}

impl Width {
    /// Adapts it to the time that a window without a job took.
    fn adapt(&mut self, took: Duration) {
        let width = match took {
            // A window eight times as wide takes eight times as long at most.
            took if took * 10 < SHORT => self.0 * 8,
            took if took < SHORT => self.0 * 2,
            took if took <= LONG => self.0,
            took => {
                let times = i64::try_from(took.as_nanos() / LONG.as_nanos());
                self.0 / times.unwrap_or(i64::MAX).saturating_add(1)
            }
        };
        self.0 = width.clamp(MIN_WIDTH, MAX_WIDTH);
    }
}
