//! Due without a database. Time is passed in.

use super::*;

const MS: Duration = Duration::from_millis(1);
/// The time of the server, in microseconds.
const NOW: i64 = 1_800_000_000_000_000;
const LARGE: i64 = 100_000;

fn place(micros: i64, id: i64) -> Place {
    Place { micros, id }
}

/// Nothing is due in a table of this size.
fn nothing(after: Place, pages: i64) -> Promoted {
    Promoted {
        moved: 0,
        last: None,
        after,
        now: NOW,
        pages,
        next_due: None,
    }
}

/// A search that starts at this mark.
fn marked(now: Instant, mark: Place) -> DueSearch {
    let mut due = DueSearch::default();
    due.note(now, Duration::ZERO, nothing(mark, LARGE));
    assert!(due.marked.is_some(), "{due:?}");
    due
}

/// A search of all due rows.
fn whole() -> DueSearch {
    let mut due = DueSearch::default();
    due.note(Instant::now(), Duration::ZERO, nothing(Place::START, 0));
    due
}

/// Sweeps one window. Returns its first page.
fn sweep(due: &mut DueSearch, now: Instant, took: Duration, pages: i64) -> i64 {
    let first = due.window(now).expect("a sweep is due");
    let found = Swept {
        may_have_more: false,
        pages,
    };
    due.note_sweep(now, took, found);
    first
}

#[test]
fn only_a_slow_promotion_of_a_large_table_starts_at_a_mark() {
    let full = Some(place(NOW - 9, 7));
    for (took, moved, pages, is_marked) in [
        (MS, 0, LARGE, false),
        (6 * MS, 0, LARGE, true),
        (6 * MS, 0, 2048, false),
        (900 * MS, 0, 2048, false),
        (6 * MS, 0, 2049, true),
        (100 * MS, 1000, LARGE, false),
        (106 * MS, 1000, LARGE, true),
    ] {
        let mut due = DueSearch::default();
        let found = Promoted {
            moved,
            last: full.filter(|_| moved > 0),
            ..nothing(Place::START, pages)
        };
        due.note(Instant::now(), took, found);
        let expected = match (is_marked, moved) {
            (false, _) => Some(Place::START),
            (true, 0) if took > LONG => Some(place(NOW, 0)),
            (true, 0) => Some(place(NOW - SETTLED_MICROS, 0)),
            (true, _) => Some(place(NOW - 9, 7)),
        };
        assert_eq!(due.after(), expected, "{took:?} {moved} {pages}");
        assert_eq!(due.sweep_in(Instant::now()).is_some(), is_marked);
    }
}

#[test]
fn a_new_process_starts_at_the_stored_mark() {
    let now = Instant::now();
    assert_eq!(DueSearch::default().after(), None);
    let stored = place(NOW - 60_000_000, 5);
    let due = marked(now, stored);
    let settled = place(NOW - SETTLED_MICROS, 0);
    assert_eq!(due.after(), Some(settled));
    assert_eq!(due.sweep_in(now), Some(Duration::ZERO));
}

#[test]
fn the_mark_follows_the_jobs_and_never_passes_those_that_may_commit() {
    let now = Instant::now();
    let mark = place(NOW - 1_000_000, 3);
    for (last, took, expected) in [
        // More jobs are due.
        (Some(place(NOW - 500_000, 8)), MS, place(NOW - 500_000, 8)),
        // The mark does not move back, unless the statement did not use it.
        (None, MS, mark),
        // Reading the last seconds takes too long.
        (None, 26 * MS, place(NOW, 0)),
    ] {
        let mut due = marked(now, mark);
        let found = nothing(mark, LARGE);
        due.note(now, took, Promoted { last, ..found });
        assert_eq!(due.after(), Some(expected));
    }
    // The clock was set back, so the statement replaced the mark.
    let mut due = marked(now, place(NOW + 1, 3));
    let replaced = place(NOW - 3_600_000_000, 3);
    let found = Promoted {
        now: NOW - 3_600_000_000 + SETTLED_MICROS,
        ..nothing(replaced, LARGE)
    };
    due.note(now, MS, found);
    assert_eq!(due.after(), Some(replaced));
}

#[test]
fn a_promotion_that_takes_too_long_is_not_the_next_one_again() {
    let now = Instant::now();
    let marked = marked(now, place(1, 1));
    for mut due in [DueSearch::default(), whole(), marked] {
        let before = due.after();
        due.note_failure(now, MS);
        assert_eq!(due.after(), before, "the server was away");
        due.note_failure(now, 10_000 * MS);
        assert_eq!(due.after(), Some(Place::FUTURE));
        assert_eq!(due.mark_to_store(now + 2 * SETTLED), None);
        assert!(due.sweep_in(now).is_some());
    }
}

#[test]
fn sweeps_read_every_page_again_and_again_in_a_twentieth_of_the_time() {
    let mut now = Instant::now();
    let mut due = marked(now, place(NOW - 9, 0));
    for _ in 0..3 {
        for first in [0, WINDOW, 2 * WINDOW] {
            assert_eq!(sweep(&mut due, now, 4 * MS, 2 * WINDOW + 1), first);
            assert_eq!(due.sweep_in(now), Some(80 * MS));
            assert_eq!(due.window(now), None);
            now += 80 * MS;
        }
    }
    due.note_failed_sweep(now, 7 * MS);
    assert_eq!(due.sweep_in(now), Some(140 * MS));
    assert_eq!(due.window(now + 140 * MS), Some(0), "the same again");
}

#[test]
fn a_window_with_more_jobs_is_read_again_at_once() {
    let now = Instant::now();
    let mut due = marked(now, place(NOW - 9, 0));
    for _ in 0..3 {
        assert_eq!(due.window(now), Some(0));
        let found = Swept {
            may_have_more: true,
            pages: LARGE,
        };
        due.note_sweep(now, 50 * MS, found);
    }
    assert_eq!(sweep(&mut due, now, MS, LARGE), 0);
    assert_eq!(sweep(&mut due, now + 100 * MS, MS, LARGE), WINDOW);
}

#[test]
fn after_a_cheap_pass_promotions_read_all_due_rows() {
    let now = Instant::now();
    for (took, is_whole) in [(2 * MS, true), (3 * MS, false)] {
        let mut due = marked(now, place(NOW - 9, 0));
        assert_eq!(sweep(&mut due, now, took, WINDOW + 1), 0);
        let later = now + 100 * MS;
        assert_eq!(sweep(&mut due, later, took, WINDOW + 1), WINDOW);
        assert_eq!(due.sweep_in(later).is_none(), is_whole);
        assert_eq!(due.after() == Some(Place::START), is_whole);
    }
}

#[test]
fn a_small_table_is_read_whole_after_a_mark() {
    let now = Instant::now();
    for mut due in [DueSearch::default(), marked(now, place(NOW - 9, 0))] {
        let found = nothing(place(NOW - 9, 0), 2048);
        assert!(due.note(now, MS, found), "the rows below it");
        assert_eq!(due.after(), Some(Place::START));
        assert_eq!(due.mark_to_store(now), None);
        assert!(!due.note(now, MS, nothing(Place::START, 2048)));
    }
}

#[test]
fn the_mark_is_stored_at_once_and_every_five_seconds() {
    let now = Instant::now();
    let mut due = marked(now, place(NOW - 9, 4));
    let mark = Some(place(NOW - 9, 4));
    assert_eq!(due.mark_to_store(now), mark);
    assert_eq!(due.mark_to_store(now + 4999 * MS), None);
    assert_eq!(due.mark_to_store(now + SETTLED), mark);
    assert_eq!(whole().mark_to_store(now), None);
}
