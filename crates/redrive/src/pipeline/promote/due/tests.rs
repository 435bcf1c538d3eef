//! Due without a database. Time is passed in.

use super::*;

const MS: Duration = Duration::from_millis(1);
/// The time of the server, in microseconds.
const NOW: i64 = 1_800_000_000_000_000;
const LARGE: i64 = 100_000;
/// The mark if nothing is left.
const SETTLED_MARK: i64 = NOW - SETTLED_MICROS;

/// Nothing is due in a table of this size.
fn nothing(has_mark: bool, pages: i64) -> Promoted {
    Promoted {
        moved: 0,
        last: None,
        has_mark,
        now: NOW,
        pages,
        next_due: None,
    }
}

/// A search that needs a mark.
fn marked(now: Instant) -> DueSearch {
    let mut due = DueSearch::default();
    due.note(now, Duration::ZERO, nothing(true, LARGE));
    assert!(due.sweep.is_some(), "{due:?}");
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
fn only_slow_promotions_of_a_large_table_need_a_mark() {
    let full = NOW - 9;
    for (took, moved, has_mark, pages, mark) in [
        (MS, 0, false, LARGE, None),
        (6 * MS, 0, false, LARGE, Some(SETTLED_MARK)),
        (6 * MS, 0, false, 2048, None),
        (6 * MS, 0, false, 2049, Some(SETTLED_MARK)),
        (100 * MS, 1000, false, LARGE, None),
        (106 * MS, 1000, false, LARGE, Some(full)),
        // Another process has stored one.
        (MS, 0, true, LARGE, Some(SETTLED_MARK)),
        (MS, 1000, true, LARGE, Some(full)),
        (900 * MS, 0, true, 2048, None),
    ] {
        let now = Instant::now();
        for mut due in [DueSearch::default(), marked(now)] {
            let found = Promoted {
                moved,
                last: (moved > 0).then_some(full),
                ..nothing(has_mark, pages)
            };
            due.note(now, took, found);
            let what = format!("{took:?} {moved} {has_mark} {pages}");
            assert_eq!(due.take_mark(now), mark, "{what}");
            assert_eq!(due.sweep_in(now).is_some(), mark.is_some(), "{what}");
        }
    }
}

#[test]
fn a_promotion_that_takes_too_long_is_not_the_next_one_again() {
    let now = Instant::now();
    for mut due in [DueSearch::default(), marked(now)] {
        _ = due.take_mark(now);
        due.note_failure(now, MS);
        assert_eq!(due.take_mark(now), None, "the server was away");
        due.note_failure(now, 10_000 * MS);
        assert_eq!(due.take_mark(now), Some(FUTURE));
        assert!(due.sweep_in(now).is_some());
    }
}

#[test]
fn sweeps_read_every_page_again_and_again_in_a_twentieth_of_the_time() {
    let mut now = Instant::now();
    let mut due = marked(now);
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
    let mut due = marked(now);
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
        let mut due = marked(now);
        assert_eq!(due.take_mark(now), Some(SETTLED_MARK));
        assert_eq!(sweep(&mut due, now, took, WINDOW + 1), 0);
        let later = now + 100 * MS;
        assert_eq!(sweep(&mut due, later, took, WINDOW + 1), WINDOW);
        assert_eq!(due.sweep_in(later).is_none(), is_whole);
        assert_eq!(due.take_mark(later), is_whole.then_some(START));
    }
}

#[test]
fn the_mark_is_stored_at_once_and_every_five_seconds() {
    let now = Instant::now();
    let mut due = marked(now);
    for (after, expected) in [
        (0, Some(SETTLED_MARK)),
        (4999, None),
        (5000, Some(SETTLED_MARK)),
    ] {
        due.note(now, MS, nothing(true, LARGE));
        assert_eq!(due.take_mark(now + after * MS), expected, "{after}");
    }
}
