//! The search in a queue of this process, where reading rows takes time.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Included};

use super::*;
use crate::pipeline::claim::windows::{FIRST_WIDTH, LONG};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MILLION: i64 = 1_000_000;
/// How many nanoseconds it takes to read a row, apart from the jobs that it returns.
const PER_ROW: u64 = 250;
const PER_JOB: Duration = Duration::from_micros(50);
/// The statement timeout.
const TIMEOUT: Duration = Duration::from_secs(10);
const LIMIT: usize = 100;

/// A place in the claim order.
type Place = (i32, i64);

/// A queue and a worker that claims from it.
struct Queue {
    now: Instant,
    search: Search,
    /// Those that the worker may claim.
    jobs: BTreeSet<Place>,
    /// Rows that it must leave: the first and the last of a rank.
    others: Vec<(Place, i64)>,
    bytes: i64,
    newest: i64,
    /// The longest claim of the last round.
    longest: Duration,
    /// The time of all sweeps.
    swept: Duration,
}

impl Queue {
    fn new(others: &[(Place, i64)], newest: i64) -> Queue {
        Queue {
            now: Instant::now(),
            search: Search::new(),
            jobs: BTreeSet::new(),
            others: others.to_vec(),
            bytes: SMALL_BYTES + 1,
            newest,
            longest: Duration::ZERO,
            swept: Duration::ZERO,
        }
    }

    /// One that the worker has searched to the end.
    fn searched(others: &[(Place, i64)], newest: i64) -> Queue {
        let mut queue = Queue::new(others, newest);
        while queue.round().is_empty() && queue.search.is_behind() {}
        queue
    }

    /// Stores a job.
    fn add(&mut self, job: Place) {
        self.jobs.insert(job);
        self.newest = self.newest.max(job.1);
    }

    fn rows_between(&self, from: Place, to: Place) -> u64 {
        let between = self.others.iter().map(|&(first, last)| {
            let last = to.min((first.0, last));
            let first = first.max((from.0, from.1.saturating_add(1)));
            match first.0 == last.0 {
                true => (last.1 - first.1 + 1).max(0).unsigned_abs(),
                false => 0,
            }
        });
        between.sum()
    }

    /// Reads what a claim reads. Returns up to `limit` jobs, and how many other rows it read.
    fn read(&self, look: &Look, limit: usize) -> (Vec<Place>, u64) {
        let (mut found, mut rows) = (Vec::new(), 0);
        for part in &look.parts {
            let from = (part.rank, part.after);
            let to = match look.scan {
                Scan::FromMarks | Scan::Sweep => (part.rank, part.to),
                Scan::Full | Scan::Gaps => (i32::try_from(part.to).unwrap() - 1, i64::MAX),
            };
            let jobs = self.jobs.range((Excluded(from), Included(to)));
            found.extend(jobs.take(limit - found.len()));
            match found.last() {
                Some(last) if found.len() == limit => {
                    rows += self.rows_between(from, *last);
                    break;
                }
                Some(_) | None => rows += self.rows_between(from, to),
            }
        }
        (found, rows)
    }

    /// Claims once. Returns the jobs.
    fn round(&mut self) -> Vec<Place> {
        if let Some(above) = self.search.wants_measure(self.now, self.bytes) {
            let ranks = self.others.iter().map(|((rank, _), _)| *rank);
            let ranks = ranks.filter(|rank| self.bytes > above && ![0, 1].contains(rank));
            let found = Measured {
                bytes: self.bytes,
                newest_id: self.newest,
                ranks: ranks.collect(),
            };
            self.search.measured(self.now, Some(&found));
        }
        self.longest = Duration::ZERO;
        let mut claimed = Vec::new();
        for scan in self.search.scans(self.now) {
            let (look, asked_at) = (self.search.look(scan, 0), self.now);
            let room = LIMIT - claimed.len();
            let (jobs, rows) = self.read(&look, room);
            let reading = MS / 5 + Duration::from_nanos(PER_ROW * rows);
            let took = reading + PER_JOB * u32::try_from(jobs.len()).unwrap();
            self.now += took.min(TIMEOUT);
            self.longest = self.longest.max(took);
            if scan == Scan::Sweep {
                self.swept += took.min(TIMEOUT);
            }
            if took > TIMEOUT {
                self.search.note_failure(&look, asked_at, TIMEOUT);
                return claimed;
            }
            let got = Fill::of(jobs.len(), room);
            let found = jobs.iter().copied();
            self.search.note(&look, asked_at, took, got, found);
            for job in &jobs {
                self.jobs.remove(job);
            }
            claimed.extend(jobs);
            if claimed.len() == LIMIT {
                break;
            }
        }
        claimed
    }

    /// Claims until this job is found, and waits as a worker does. Returns the time.
    fn find(&mut self, job: Place) -> Duration {
        let asked_at = self.now;
        while !self.round().contains(&job) {
            let took = self.now.duration_since(asked_at);
            assert!(took < 600 * SECOND, "{job:?} {:?}", self.search);
            let wait = self.search.wait(self.now).unwrap_or(SECOND);
            self.now += wait.min(SECOND);
        }
        self.now.duration_since(asked_at)
    }
}

#[test]
fn claims_get_past_ten_million_other_rows_in_steps() {
    // Dead rows and jobs of other kinds, also behind many ids without a row.
    for first in [1, 1_000 * MILLION] {
        let last = first + 10 * MILLION;
        let mut queue = Queue::new(&[((0, first), last)], last + 10 * MILLION);
        queue.add((0, first + 5 * MILLION));
        let took = queue.find((0, first + 5 * MILLION));
        assert!(took < 3 * SECOND, "{first} {took:?}");
        // Behind ids without a row, the first windows are too wide.
        for _ in 0..20 {
            queue.round();
            assert!(first > 1 || queue.longest < 2 * LONG, "{:?}", queue.longest);
        }
    }
}

#[test]
fn claims_that_take_too_long_are_narrowed() {
    // Windows of ids without a row have become wide.
    let first = 1 << 50;
    let last = first + 50 * MILLION;
    let mut queue = Queue::new(&[((0, first), last)], last + 10 * MILLION);
    queue.add((0, last + 1));
    queue.find((0, last + 1));
}

#[test]
fn the_newest_jobs_do_not_wait_for_the_marks() {
    let mut queue = Queue::new(&[((0, 1), 10 * MILLION)], 10 * MILLION);
    queue.round();
    queue.add((0, 10 * MILLION + 1));
    queue.round();
    queue.add((0, 10 * MILLION + 2));
    assert!(queue.round().contains(&(0, 10 * MILLION + 2)));
    assert!(queue.search.is_behind());
    // It moves no mark to the end.
    queue.add((0, 2 * MILLION));
    assert!(queue.find((0, 2 * MILLION)) < SECOND);
}

#[test]
fn jobs_below_the_marks_are_found_in_a_twentieth_of_the_time() {
    // With and without new jobs all the time.
    for new in [0, 100] {
        let mut queue = Queue::searched(&[((0, 1), MILLION)], MILLION);
        let (began, mut late) = (queue.now, 0);
        while queue.now < began + 60 * SECOND {
            let newest = queue.newest;
            (newest + 1..=newest + new).for_each(|id| queue.add((0, id)));
            if queue.jobs.range(..(0, MILLION)).next().is_none() {
                queue.add((0, 99_991 * (10 - late % 10)));
                late += 1;
            }
            queue.round();
            // Behind the ids of the new jobs, which are gone, windows are too wide for a moment.
            assert!(new > 0 || queue.longest < 2 * LONG, "{:?}", queue.longest);
            queue.now += 3 * MS;
        }
        // A pass takes 5 seconds.
        assert!((6..=40).contains(&late), "{late}");
        let all = queue.now.duration_since(began);
        assert!(queue.swept < all / 12, "{:?} of {all:?}", queue.swept);
        assert!(queue.swept > all / 60, "{:?} of {all:?}", queue.swept);
    }
}

#[test]
fn jobs_that_return_together_are_found_together() {
    let mut queue = Queue::searched(&[((0, 1), MILLION)], MILLION);
    (5000..15_000).for_each(|id| queue.add((0, id)));
    queue.find((0, 5000));
    let found: usize = (0..95).map(|_| queue.round().len()).sum();
    assert!(found >= 9000, "{found}");
}

#[test]
fn a_transaction_of_the_last_seconds_is_found_at_once() {
    let mut queue = Queue::searched(&[((0, 1), MILLION)], MILLION);
    for after in [Duration::ZERO, SETTLED, SETTLED] {
        queue.now += after;
        let newest = queue.newest + TAIL;
        queue.add((0, newest));
        assert!(queue.round().contains(&(0, newest)), "{after:?}");
        queue.add((0, newest - TAIL / 2));
        assert!(queue.round().contains(&(0, newest - TAIL / 2)), "{after:?}");
    }
}

#[test]
fn claims_of_a_low_rank_hide_no_job_of_a_high_one_far_ahead() {
    let mut queue = Queue::new(&[((0, 1), MILLION)], 10 * MILLION);
    (1..=200_000).for_each(|id| queue.add((1, id)));
    queue.add((0, MILLION / 2));
    let is_found = (0..60).any(|_| queue.round().contains(&(0, MILLION / 2)));
    assert!(is_found, "{:?}", queue.search);
}

#[test]
fn jobs_of_a_new_priority_come_soon() {
    let mut queue = Queue::searched(&[((0, 1), MILLION)], MILLION);
    queue.add((-6, MILLION + 1));
    assert!(queue.round().contains(&(-6, MILLION + 1)), "first of all");
    // While claims are full.
    (MILLION + 2..MILLION + 100_000).for_each(|id| queue.add((0, id)));
    queue.round();
    queue.add((-8, 2 * MILLION));
    assert!(queue.find((-8, 2 * MILLION)) < SECOND * 3 / 2);
    // Many that it must leave slow down its claims only until it knows their rank.
    queue.others.push(((-10, 2 * MILLION), 4 * MILLION));
    queue.now += SECOND;
    queue.round();
    assert!(queue.longest > 10 * LONG, "{:?}", queue.longest);
    queue.now += SETTLED;
    queue.round();
    assert!(queue.longest < 2 * LONG, "{:?}", queue.longest);
}

#[test]
fn a_claim_past_the_batches_of_others_passes_nothing() {
    let mut queue = Queue::new(&[], 10 * MILLION);
    let mut search = measured(queue.now, SMALL_BYTES + 1);
    let look = search.look(Scan::FromMarks, 1000);
    (1..=FIRST_WIDTH).for_each(|id| queue.add((0, id)));
    assert_eq!(queue.read(&look, 1).0, [(0, 1001)]);
    search.note(&look, queue.now, MS, Fill::Partial, std::iter::empty());
    let next = search.look(Scan::FromMarks, 0);
    assert_eq!(queue.read(&next, 1).0, [(0, 1)]);
}

#[test]
fn a_small_queue_is_read_whole_and_so_is_one_that_is_read_in_a_moment() {
    let mut queue = Queue::new(&[((0, 1), 100)], 100);
    queue.bytes = SMALL_BYTES;
    queue.round();
    assert_eq!(queue.search.scans(queue.now), [Scan::Full]);
    let mut queue = Queue::new(&[((0, 1), 100)], MILLION);
    queue.round();
    assert_ne!(queue.search.scans(queue.now), [Scan::Full]);
    for _ in 0..100 {
        queue.round();
        queue.now += SECOND;
    }
    assert_eq!(queue.search.scans(queue.now), [Scan::Full]);
}

/// A search in a queue of this size, which was measured now.
fn measured(now: Instant, bytes: i64) -> Search {
    let (mut search, ranks) = (Search::new(), Vec::new());
    let newest_id = 10 * MILLION;
    let found = Measured {
        bytes,
        newest_id,
        ranks,
    };
    search.measured(now, Some(&found));
    search
}

#[test]
fn a_queue_that_has_grown_is_measured_again() {
    let now = Instant::now();
    let later = now + MEASURE_EVERY;
    for (before, at, bytes, again) in [
        (0, later, SMALL_BYTES, false),
        (0, later, SMALL_BYTES + 1, true),
        (0, now, SMALL_BYTES + 1, false),
        (SMALL_BYTES, later, 2 * SMALL_BYTES, false),
        (SMALL_BYTES, later, 2 * SMALL_BYTES + 1, true),
        (SMALL_BYTES + 1, later, 0, false),
        (SMALL_BYTES + 1, now + SETTLED, 0, true),
    ] {
        let mut search = measured(now, before);
        let wants = search.wants_measure(at, bytes);
        assert_eq!(wants.is_some(), again, "{before} {bytes}");
    }
}

#[test]
fn a_queue_is_measured_again_after_a_slow_claim() {
    let now = Instant::now();
    let later = now + MEASURE_EVERY;
    for (asked_at, took, again) in [
        (later, SLOW, false),
        (later, SLOW + MS, true),
        // It was measured a moment ago.
        (now, SLOW + MS, false),
        (now, MEASURE_EVERY, true),
    ] {
        let [mut claimed, mut failed] = [(); 2].map(|()| measured(now, 0));
        let look = claimed.look(Scan::Full, 0);
        claimed.note(&look, asked_at, took, Fill::Full, std::iter::empty());
        failed.note_failure(&look, asked_at, took);
        for mut search in [claimed, failed] {
            let wants = search.wants_measure(later, 0).is_some();
            assert_eq!(wants, again, "{took:?}");
        }
    }
}

#[test]
fn a_measurement_that_fails_is_repeated_without_looking_for_ranks() {
    let now = Instant::now();
    let mut search = Search::new();
    assert_eq!(search.wants_measure(now, 0), Some(SMALL_BYTES));
    search.measured(now, None);
    assert_eq!(search.wants_measure(now, 0), Some(i64::MAX));
    assert_eq!(search.wants_measure(now, i64::MAX), Some(i64::MAX));
}
