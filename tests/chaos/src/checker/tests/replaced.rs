//! Records of jobs with the modes of unique keys: replaced ones, windows, and keys that are free at a start.

use std::sync::Arc;

use super::samples::{JOB, change, line, succeeded};
use super::{Case, check_cases, rules};
use crate::checker::{FinalRow, Records, Rule};
use crate::db_trace::{Change, Place, RowChange};
use crate::history::{ClientEvent, HistoryLine, Operation};
use crate::role::WINDOW;

/// A job that is enqueued later, with the same unique key.
const LATER: i64 = JOB + 1;
/// The header of a job whose key is free once it starts.
const UNTIL_STARTED: &str = r#"{"redrive-unique-until": "started"}"#;

fn set_key(row: &mut RowChange, key: &str) {
    let key: Option<Arc<str>> = Some(Arc::from(key));
    row.unique_key.clone_from(&key);
    if let Some(facts) = &mut row.facts {
        Arc::make_mut(facts).unique_key = key;
    }
}

/// Adds the second operation of the client.
fn call(records: &mut Records, operation: Operation, from: i64, to: i64, ids: Vec<i64>) {
    let invoked = ClientEvent::Invoked {
        operation,
        keys: vec![71],
        ids: Vec::new(),
    };
    let lines = [(from, invoked), (to, ClientEvent::Ok { ids })];
    records.history.extend(lines.map(|(at, event)| HistoryLine {
        op: 2,
        ..line(at, event)
    }));
}

/// A delayed job is replaced: the next enqueue of its key changes when it is due.
fn replaced() -> Records {
    let mut records = succeeded();
    records.handlers.clear();
    let mut stored = change(1, 0, Place::Delayed, Change::In);
    (stored.key, stored.due) = (Some(70), Some(5_000_000));
    stored.process = Arc::from("enqueuer-1.1");
    set_key(&mut stored, "r1");
    let mut moved = stored.clone();
    (moved.seq, moved.tx, moved.change) = (400, 2, Change::Edited);
    (moved.at, moved.began, moved.committed) = (40, 40, 40);
    (moved.key, moved.due) = (None, Some(6_000_000));
    records.trace = vec![stored, moved];
    records.final_rows.push(FinalRow {
        job: JOB,
        place: Place::Delayed,
    });
    call(&mut records, Operation::Replace, 39, 41, vec![-JOB, JOB]);
    records
}

/// A job succeeds. Another one with its key is stored at this time.
fn stored_again(key: &str, at: i64) -> Records {
    let mut records = succeeded();
    for row in &mut records.trace {
        set_key(row, key);
    }
    let mut later = change(20, at, Place::Ready, Change::In);
    (later.job, later.key) = (LATER, Some(71));
    later.process = Arc::from("enqueuer-1.1");
    set_key(&mut later, key);
    records.trace.push(later);
    records.final_rows.push(FinalRow {
        job: LATER,
        place: Place::Ready,
    });
    records
}

/// The window of its key ended before the key was enqueued again.
fn stored_after_window() -> Records {
    let window = i64::try_from(WINDOW.as_micros()).expect("a short time");
    let mut records = stored_again("w1", window);
    let operation = Operation::EnqueueInWindow;
    call(&mut records, operation, window, window + 1, vec![LATER]);
    records
}

/// Its key is enqueued again while it runs, which its header allows.
fn stored_after_start() -> Records {
    let mut records = stored_again("s1", 20);
    for row in &mut records.trace[..3] {
        if let Some(facts) = &mut row.facts {
            Arc::make_mut(facts).headers = Some(Arc::from(UNTIL_STARTED));
        }
    }
    call(&mut records, Operation::Enqueue, 19, 21, vec![LATER]);
    records
}

#[test]
fn correct_histories_of_all_modes_have_no_violations() {
    for records in [replaced(), stored_after_window(), stored_after_start()] {
        assert_eq!(rules(&records), [], "{records:#?}");
    }
}

#[test]
fn every_wrong_history_of_a_mode_violates_its_rule() {
    let cases: &[Case] = &[
        (
            "an answer without a replacement",
            replaced,
            |r| r.trace.truncate(1),
            Rule::UniqueModes,
        ),
        (
            "replaced by another client",
            replaced,
            |r| r.trace[1].process = Arc::from("enqueuer-2.1"),
            Rule::UniqueModes,
        ),
        (
            "replaced before the call",
            replaced,
            |r| r.trace[1].at = 38,
            Rule::UniqueModes,
        ),
        (
            "replaced without a request",
            replaced,
            |r| r.history.truncate(2),
            Rule::Content,
        ),
        (
            "replaced, but as the holder of its key for another client",
            replaced,
            |r| {
                r.history[3].event = ClientEvent::Ok {
                    ids: vec![-LATER, LATER],
                }
            },
            Rule::UniqueModes,
        ),
        (
            "stored within the window",
            stored_after_window,
            |r| r.trace[4].at -= 1,
            Rule::UniqueModes,
        ),
        (
            "within the window, but reported as new",
            stored_after_window,
            |r| (r.trace[4].at, r.history[2].at, r.history[3].at) = (60, 50, 70),
            Rule::UniqueModes,
        ),
        (
            "a key that is not free at the start",
            stored_after_start,
            |r| {
                let facts = r.trace[2].facts.as_mut();
                Arc::make_mut(facts.expect("the row has a content")).headers = None;
            },
            Rule::OneOfAKey,
        ),
        (
            "a key that is enqueued again before the start",
            stored_after_start,
            |r| (r.trace[4].seq, r.trace[4].at) = (50, 5),
            Rule::OneOfAKey,
        ),
        (
            "reported as the holder after the start",
            stored_after_start,
            |r| {
                r.trace.truncate(4);
                r.final_rows.clear();
                (r.history[2].at, r.history[3].at) = (900_000, 900_001);
                r.history[3].event = ClientEvent::Ok { ids: vec![-JOB] };
            },
            Rule::OneOfAKey,
        ),
    ];
    check_cases(cases);
}
