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
        last_micros: None,
        mark_micros: i64::from(has_mark),
        now_micros: NOW,
        pages,
        next_due_ms: None,
    }
}

/// A search that needs a mark.
fn marked(now: Instant) -> DueSearch {
    let mut due = DueSearch::default();
    due.note(now, Duration::ZERO, &nothing(true, LARGE));
    assert!(due.is_whole(now), "{due:?}");
    due
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
        let mut due = DueSearch::default();
        let found = Promoted {
            moved,
            last_micros: (moved > 0).then_some(full),
            ..nothing(has_mark, pages)
        };
        due.note(now, took, &found);
        let what = format!("{took:?} {moved} {has_mark} {pages}");
        assert_eq!(due.take_mark(now), mark, "{what}");
        assert_eq!(due.whole_in(now).is_some(), mark.is_some(), "{what}");
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
        let failed_at = now + 10_000 * MS;
        assert_eq!(due.whole_in(failed_at), Some(10_000 * MS));
    }
}

#[test]
fn all_due_rows_are_read_in_a_twentieth_of_the_time() {
    let now = Instant::now();
    let mut due = marked(now);
    assert_eq!(due.pages(now), i64::MAX);
    due.note(now, 30 * MS, &nothing(false, LARGE));
    assert_eq!(due.pages(now + 599 * MS), SMALL_PAGES);
    assert_eq!(due.pages(now + 600 * MS), i64::MAX);
    due.note_failure(now + 600 * MS, 7 * MS);
    assert_eq!(due.whole_in(now + 600 * MS), Some(140 * MS));
    assert_ne!(due.take_mark(now), Some(FUTURE), "the mark helps");
}

#[test]
fn promotions_go_back_to_what_one_that_read_all_due_rows_has_left() {
    let now = Instant::now();
    let mut due = marked(now);
    assert_eq!(due.take_mark(now), Some(SETTLED_MARK));
    let found = Promoted {
        moved: 1000,
        last_micros: Some(NOW / 2),
        ..nothing(false, LARGE)
    };
    due.note(now, 900 * MS, &found);
    due.note(now, MS, &nothing(true, LARGE));
    assert_eq!(due.take_mark(now + 5000 * MS), Some(NOW / 2));
}

#[test]
fn after_a_cheap_promotion_of_all_due_rows_no_mark_is_needed() {
    let now = Instant::now();
    let mut due = marked(now);
    assert_eq!(due.take_mark(now), Some(SETTLED_MARK));
    due.note(now, 5 * MS, &nothing(false, LARGE));
    assert_eq!((due.take_mark(now), due.whole_in(now)), (Some(START), None));
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
        due.note(now, MS, &nothing(true, LARGE));
        assert_eq!(due.take_mark(now + after * MS), expected, "{after}");
    }
}
