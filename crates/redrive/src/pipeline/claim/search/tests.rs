//! The search without a database. Time is passed in.

use super::*;

const MS: Duration = Duration::from_millis(1);

fn found(bytes: i64, ranks: &[i32]) -> Measured {
    Measured {
        bytes,
        newest: 10_000_000,
        ranks: ranks.to_vec(),
    }
}

fn measured(now: Instant, bytes: i64) -> Search {
    let mut search = Search::new();
    search.measured(now, found(bytes, &[]));
    search
}

fn ended(asked_at: Instant, took: Duration, fill: Fill) -> Ended {
    Ended {
        asked_at,
        took,
        lead: 0,
        fill,
    }
}

/// Claims nothing in this time.
fn leave(search: &mut Search, now: Instant, took: Duration) {
    for scan in search.scans(now) {
        let look = search.look(scan, 0);
        let ended = ended(now, took, Fill::Partial);
        search.note(&look, ended, std::iter::empty());
    }
}

#[test]
fn a_small_queue_is_read_whole() {
    let now = Instant::now();
    let mut search = Search::new();
    assert_eq!(search.wants_measure(now, 0), Some(Ranks::Find));
    search.measured(now, found(SMALL_BYTES, &[]));
    assert_eq!(search.wants_measure(now, 0), None);
    for _ in 0..3 {
        assert_eq!(search.scans(now), [Scan::Full]);
        let all = Parts::Ranges(vec![IndexRange::ALL]);
        assert_eq!(search.look(Scan::Full, 0).parts(), all);
        leave(&mut search, now, MS);
    }
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
    ] {
        let mut search = measured(now, before);
        let wants = search.wants_measure(at, bytes);
        assert_eq!(wants.is_some(), again, "{before} {bytes}");
    }
}

#[test]
fn a_large_queue_is_read_in_windows_and_measured_every_five_seconds() {
    let now = Instant::now();
    let mut search = measured(now, SMALL_BYTES + 1);
    assert_eq!(search.scans(now), [Scan::Gaps, Scan::FromMarks]);
    leave(&mut search, now, MS);
    let then = search.scans(now);
    let all = [Scan::Gaps, Scan::Sweep, Scan::FromMarks];
    assert_eq!(then, all, "and what is below");
    assert_eq!(search.wants_measure(now, 0), None);
    let later = now + 5000 * MS;
    assert_eq!(search.wants_measure(later, 0), Some(Ranks::Known));
    search.measured(later, found(0, &[]));
    assert_eq!(search.wants_measure(later, 0), None);
}

#[test]
fn a_slow_claim_measures_the_queue_again() {
    let now = Instant::now();
    let later = now + MEASURE_EVERY;
    for (asked_at, took, fill, again) in [
        (later, SLOW, Fill::Partial, false),
        (later, SLOW + MS, Fill::Partial, true),
        // It found what it asked for.
        (later, SLOW + MS, Fill::Full, false),
        (later, SLOW * 6, Fill::Full, true),
        // It was measured a moment ago.
        (now, SLOW + MS, Fill::Partial, false),
        (now, MEASURE_EVERY, Fill::Partial, true),
    ] {
        let mut search = measured(now, 0);
        let look = search.look(Scan::Full, 0);
        search.note(&look, ended(asked_at, took, fill), std::iter::empty());
        assert_eq!(search.wants_measure(later, 0).is_some(), again, "{took:?}");
        let mut search = measured(now, 0);
        search.note_failure(&look, asked_at, took);
        if again && fill == Fill::Partial {
            assert!(search.wants_measure(later, 0).is_some(), "{took:?}");
        }
    }
}

#[test]
fn a_queue_of_which_many_jobs_are_claimed_is_measured_again() {
    let now = Instant::now();
    let later = now + MEASURE_EVERY;
    for (jobs, asked_at, again) in [(499, later, false), (500, later, true), (500, now, false)] {
        let mut search = measured(now, 0);
        let full = ended(asked_at, MS, Fill::Full);
        search.note(&Look::Whole, full, (0..jobs).map(|id| (0, id)));
        assert_eq!(search.wants_measure(later, 0).is_some(), again, "{jobs}");
    }
}

#[test]
fn a_measurement_that_fails_is_repeated_without_looking_for_ranks() {
    let now = Instant::now();
    let mut search = Search::new();
    search.not_measured();
    assert_eq!(search.wants_measure(now, 0), Some(Ranks::Known));
    search.measured(now, found(SMALL_BYTES + 1, &[]));
    assert!(search.place.windows().is_some());
}

#[test]
fn a_slow_claim_of_ranks_without_a_mark_looks_for_ranks() {
    let now = Instant::now();
    let mut search = measured(now, SMALL_BYTES + 1);
    let look = search.look(Scan::Gaps, 0);
    let slow = ended(now, SLOW + MS, Fill::Partial);
    search.note(&look, slow, std::iter::empty());
    assert_eq!(search.wants_measure(now, 0), None);
    let later = now + 5000 * MS;
    assert_eq!(search.wants_measure(later, 0), Some(Ranks::Find));
    search.measured(later, found(0, &[-40]));
    let Look::Gaps(gaps) = search.look(Scan::Gaps, 0) else {
        panic!("{search:?}")
    };
    let below: Vec<i32> = gaps.iter().map(|gap| gap.to_rank).collect();
    assert_eq!(below, [-40, 0, 1, i32::MAX]);
}

#[test]
fn a_queue_whose_jobs_are_all_read_in_a_moment_is_read_whole_again() {
    let now = Instant::now();
    let mut search = Search::new();
    search.measured(now, found(SMALL_BYTES + 1, &[]));
    for n in 0..100 {
        leave(&mut search, now + 1000 * n * MS, Duration::from_micros(100));
    }
    assert!(matches!(search.place, Place::Whole { .. }), "{search:?}");
}

#[test]
fn nothing_is_recorded_for_a_claim_that_another_fetcher_overtook() {
    let now = Instant::now();
    let mut search = measured(now, SMALL_BYTES + 1);
    let look = search.look(Scan::FromMarks, 0);
    search = Search::new();
    search.note(&look, ended(now, MS, Fill::Full), [(0, 5)].into_iter());
    assert_eq!(search.wants_measure(now, 0), Some(Ranks::Find));
}
