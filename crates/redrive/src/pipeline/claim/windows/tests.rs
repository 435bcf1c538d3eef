//! Windows without a database. Time is passed in.

use super::*;

const MS: Duration = Duration::from_millis(1);
const MILLION: i64 = 1_000_000;

fn windows(now: Instant, newest: i64) -> Windows {
    Windows::new(now, newest)
}

/// Windows whose front has got to these marks.
fn marked(now: Instant, newest: i64, marks: BTreeMap<i32, i64>) -> Windows {
    Windows {
        marks,
        ..windows(now, newest)
    }
}

/// Claims these jobs in this time.
fn claim(windows: &mut Windows, took: Duration, got: Fill, jobs: &[(i32, i64)]) -> Front {
    let front = windows.front(0);
    windows.note_front(&front, 0, took, got, jobs.iter().copied());
    front
}

/// Claims nothing in this time.
fn leave(windows: &mut Windows, took: Duration) -> Front {
    claim(windows, took, Fill::Partial, &[])
}

/// Whether a claim of these parts reads a job.
fn reads(parts: &[IdRange], rank: i32, id: i64) -> bool {
    let has = |part: &IdRange| part.rank == rank && id > part.after && id <= part.to;
    parts.iter().any(has)
}

#[test]
fn a_claim_reads_a_window_of_each_rank() {
    let windows = windows(Instant::now(), 10 * MILLION);
    let parts = windows.front(0).parts;
    for rank in [0, 1] {
        assert!(reads(&parts, rank, 1) && reads(&parts, rank, FIRST_WIDTH));
        for id in [FIRST_WIDTH + 1, 5 * MILLION, 10 * MILLION] {
            assert!(!reads(&parts, rank, id), "{id}");
        }
    }
    let is_sorted = parts.is_sorted_by_key(|part| (part.rank, part.after));
    assert!(is_sorted, "{parts:?}");
}

#[test]
fn ranks_without_a_mark_are_read_each_second_and_after_a_partial_claim() {
    let now = Instant::now();
    let mut windows = windows(now, 10 * MILLION);
    assert_eq!(windows.gaps_at(), now);
    let gaps = windows.gaps().into_iter();
    let gaps = gaps.map(|gap| (gap.from_rank, gap.from_id, gap.to_rank));
    let (first, last) = (i32::MIN, i32::MAX);
    assert!(gaps.eq([(first, 0, 0), (0, i64::MAX, 1), (1, i64::MAX, last)]));
    windows.note_gaps(now, [(-5, 80), (-5, 90)].into_iter());
    assert_eq!(windows.marks[&-5], 80);
    assert_eq!(windows.gaps()[0].to_rank, -5);
    assert_eq!(windows.gaps_at(), now + GAPS_EVERY);
    claim(&mut windows, MS, Fill::Full, &[(0, 5)]);
    assert_eq!(windows.gaps_at(), now + GAPS_EVERY);
    leave(&mut windows, MS);
    assert_eq!(windows.gaps_at(), now);
}

#[test]
fn the_width_of_a_window_follows_the_time_it_takes() {
    let mut windows = windows(Instant::now(), 1 << 45);
    for (took, width) in [
        (MS, 2 * FIRST_WIDTH),
        (SHORT, 2 * FIRST_WIDTH),
        (LONG, 2 * FIRST_WIDTH),
        (LONG + MS, FIRST_WIDTH),
    ] {
        leave(&mut windows, took);
        assert_eq!(windows.width, width, "{took:?}");
    }
    leave(&mut windows, MS / 4);
    assert_eq!(windows.width, 8 * FIRST_WIDTH, "still short");
    // Empty windows reach any id within a few claims.
    let mut claims = 0;
    while windows.is_behind() {
        leave(&mut windows, MS);
        claims += 1;
    }
    assert!(claims < 60, "{claims} claims");
    for _ in 0..100 {
        windows.note_failure(Instant::now(), 10_000 * MS, true);
    }
    assert_eq!(windows.width, MIN_WIDTH);
}

#[test]
fn a_claim_that_returned_jobs_moves_the_mark_to_the_last_one() {
    let mut windows = windows(Instant::now(), 10 * MILLION);
    claim(&mut windows, MS, Fill::Partial, &[(0, 70), (0, 60)]);
    assert_eq!(windows.marks, BTreeMap::from([(0, 70), (1, 0)]));
}

#[test]
fn claims_of_a_low_rank_hide_no_job_of_a_high_one_far_ahead() {
    let newest = 10 * MILLION;
    // However long the claims take for their own jobs.
    for (took, jobs) in [(MS, 1), (40 * MS, 1000)] {
        let mut windows = windows(Instant::now(), newest);
        let finds_it = (0..60).any(|_| {
            let parts = windows.front(0).parts;
            let mark = windows.marks[&1];
            let redriven: Vec<_> = (1..=jobs).map(|job| (1, mark + job)).collect();
            claim(&mut windows, took, Fill::Full, &redriven);
            reads(&parts, 0, MILLION)
        });
        assert!(
            finds_it,
            "a new job waits for the redriven ones: {windows:?}"
        );
    }
}

#[test]
fn a_claim_past_the_batches_of_others_passes_nothing() {
    let mut windows = windows(Instant::now(), 10 * MILLION);
    let front = windows.front(1000);
    assert!(!reads(&front.parts, 0, 1000) && reads(&front.parts, 0, 1001));
    windows.note_front(&front, 1000, MS, Fill::Partial, std::iter::empty());
    assert_eq!(windows.marks[&0], 0);
}

#[test]
fn ids_of_the_last_seconds_are_read_again() {
    let now = Instant::now();
    let mut windows = windows(now, 10_000);
    let front = leave(&mut windows, MS);
    assert!(front.ends.is_empty());
    let settled = 10_000 - TAIL;
    assert_eq!(windows.marks[&0], settled);
    // A job at the end of the queue does not hide an older one that commits later.
    claim(&mut windows, MS, Fill::Partial, &[(0, 9_999)]);
    assert_eq!(windows.marks[&0], settled);
    assert!(!windows.is_sample_due(now) && windows.is_sample_due(now + SETTLED));
    windows.sample(now + SETTLED, 30_000);
    leave(&mut windows, MS);
    assert_eq!(windows.marks[&0], 10_000);
    // Unless there are too many of them.
    leave(&mut windows, LONG + MS);
    assert_eq!(windows.marks[&0], 30_000);
}

#[test]
fn the_newest_jobs_do_not_wait_for_the_marks() {
    let newest = 10 * MILLION;
    // Ids without a row are no jobs to leave.
    let mut of_none = windows(Instant::now(), newest);
    leave(&mut of_none, MS);
    assert!(!reads(&of_none.front(0).parts, 0, newest));
    let mut windows = windows(Instant::now(), newest);
    assert!(!reads(&windows.front(0).parts, 0, newest));
    leave(&mut windows, 5 * MS);
    let front = windows.front(0);
    for id in [newest - TAIL + 1, newest, newest + MILLION] {
        assert!(reads(&front.parts, 0, id), "{id}");
    }
    // One of them moves no mark to the end, but the window was read.
    windows.note_front(&front, 0, 5 * MS, Fill::Full, [(0, newest)].into_iter());
    assert_eq!(windows.marks[&0], 2 * FIRST_WIDTH);
    assert_eq!(windows.marks[&1], FIRST_WIDTH, "its window was not read");
    // Where jobs are found in their order, the newest come last.
    let later = [(0, 2 * FIRST_WIDTH + 5)];
    claim(&mut windows, 5 * MS, Fill::Full, &later);
    assert!(!reads(&windows.front(0).parts, 0, newest));
}

/// Sweeps until a pass is over. Returns the windows.
fn pass(windows: &mut Windows, now: Instant, took: Duration) -> (Vec<Window>, bool) {
    let mut read = Vec::new();
    loop {
        let window = windows.window();
        let is_needed = windows.note_sweep(&window, now, took, Fill::Partial, 0);
        read.push(window);
        if windows.sweep.at == 0 {
            return (read, is_needed);
        }
    }
}

#[test]
fn a_sweep_reads_everything_below_the_marks() {
    let now = Instant::now();
    let marks = BTreeMap::from([(-2, 40_000), (0, 5 * MILLION), (1, 0)]);
    let mut windows = marked(now, 5 * MILLION, marks.clone());
    for _ in 0..2 {
        let (read, is_needed) = pass(&mut windows, now, 20 * MS);
        assert!(is_needed);
        let all: Vec<IdRange> = read.into_iter().flat_map(|window| window.parts).collect();
        for (&rank, &mark) in &marks {
            for id in (1..=mark).step_by(997).chain((mark > 0).then_some(mark)) {
                assert!(reads(&all, rank, id), "{rank} {id}");
            }
            assert!(!reads(&all, rank, mark + 1));
        }
    }
}

#[test]
fn marks_that_move_on_do_not_prolong_a_pass() {
    let now = Instant::now();
    let mut windows = marked(now, 1 << 40, BTreeMap::from([(0, MILLION)]));
    let mut claims = 0;
    loop {
        let window = windows.window();
        windows.note_sweep(&window, now, 20 * MS, Fill::Partial, 0);
        claims += 1;
        if windows.sweep.at == 0 {
            break;
        }
        let last = (0, windows.marks[&0] + 10_000);
        claim(&mut windows, MS, Fill::Full, &[last]);
    }
    assert!(claims < 130, "{claims} claims");
    assert!(reads(&windows.window().parts, 0, 1), "the next pass");
}

#[test]
fn a_window_with_more_jobs_is_swept_again_at_once() {
    let now = Instant::now();
    let mut windows = marked(now, MILLION, BTreeMap::from([(0, MILLION)]));
    let window = windows.window();
    windows.note_sweep(&window, now, 20 * MS, Fill::Full, 8);
    assert_eq!(windows.sweep_in(now), Some(Duration::ZERO));
    assert_eq!(windows.window(), window);
    windows.note_sweep(&window, now, 20 * MS, Fill::Partial, 3);
    assert!(reads(&windows.window().parts, 0, window.end + 1));
    // The next one may have some, too, and there are no others.
    assert_eq!(windows.sweep_in(now), Some(400 * MS));
    leave(&mut windows, MS);
    assert_eq!(windows.sweep_in(now), Some(Duration::ZERO));
    let window = windows.window();
    windows.note_sweep(&window, now, 20 * MS, Fill::Partial, 0);
    leave(&mut windows, MS);
    assert_eq!(windows.sweep_in(now), Some(400 * MS));
}

#[test]
fn a_sweep_takes_a_twentieth_of_the_time() {
    let now = Instant::now();
    let mut windows = marked(now, MILLION, BTreeMap::from([(0, MILLION)]));
    assert_eq!(windows.sweep_in(now), None, "the front comes first");
    leave(&mut windows, MS);
    assert_eq!(windows.sweep_in(now), Some(Duration::ZERO));
    let window = windows.window();
    windows.note_sweep(&window, now, 20 * MS, Fill::Partial, 0);
    assert_eq!(windows.sweep_in(now), Some(400 * MS));
    windows.note_failure(now, 10 * MS, true);
    assert_eq!(windows.sweep_in(now), Some(200 * MS));
    windows.note_failure(now, 10_000 * MS, false);
    assert_eq!(windows.sweep_in(now), Some(200 * MS), "of the front");
}

#[test]
fn windows_are_given_up_after_a_cheap_pass() {
    let now = Instant::now();
    let mut windows = marked(now, MILLION, BTreeMap::from([(0, 0)]));
    let window = windows.window();
    let is_needed = windows.note_sweep(&window, now, MS, Fill::Partial, 0);
    assert!(is_needed, "the front is behind");
    while windows.is_behind() {
        leave(&mut windows, MS);
    }
    leave(&mut windows, MS);
    assert!(!pass(&mut windows, now, CHEAP / 2).1);
    assert!(pass(&mut windows, now, CHEAP).1);
}
