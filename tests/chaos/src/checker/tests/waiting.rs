//! Jobs that expire, are raised, have no worker or die with a secret, each with one wrong fact.

use std::sync::Arc;

use super::changed::captured;
use super::samples::{JOB, change, facts, history, rejected, succeeded};
use super::{Case, check_cases, rules};
use crate::checker::{FinalRow, Records, Rule};
use crate::db_trace::{Change, Place};
use crate::facts::Facts;
use crate::history::{ClientEvent, HistoryLine, Operation};

const SECOND: i64 = 1_000_000;

/// Changes what the job carries, in its rows from this one on.
fn carry(records: &mut Records, from: usize, change: fn(&mut Facts)) {
    for row in &mut records.trace[from..] {
        if let Some(facts) = &mut row.facts {
            change(Arc::make_mut(facts));
        }
    }
}

/// Its only attempt would begin after it expired.
fn expired() -> Records {
    let mut records = rejected();
    records.handlers.clear();
    carry(&mut records, 0, |facts| {
        facts.headers = Some(Arc::from(r#"{"redrive-expires-in-ms": "1"}"#));
    });
    for row in &mut records.trace[3..] {
        (row.at, row.began) = (1100, 1100);
    }
    let letter = &mut records.trace[4];
    (letter.attempt, letter.cause) = (0, Some(Arc::from("expired")));
    letter.facts = Some(Arc::new(Facts {
        error: None,
        history: Some(Arc::from("[]")),
        ..(**letter.facts.as_ref().expect("a letter has a content")).clone()
    }));
    records
}

/// A worker raises it after two seconds.
fn raised() -> Records {
    let mut records = succeeded();
    records.handlers.clear();
    records.trace.truncate(1);
    let out = change(2, 2 * SECOND, Place::Ready, Change::Out);
    let mut back = change(2, 2 * SECOND, Place::Ready, Change::In);
    back.facts = Some(Arc::new(Facts {
        priority: 20,
        headers: Some(Arc::from(r#"{"a": "b", "redrive-priority": "3"}"#)),
        ..facts(None)
    }));
    records.trace.extend([out, back]);
    records.final_rows.push(FinalRow {
        job: JOB,
        place: Place::Ready,
    });
    records
}

/// No worker handles its kind.
fn unhandled() -> Records {
    let mut records = rejected();
    records.handlers.clear();
    records.trace.drain(2..4);
    carry(&mut records, 0, |facts| facts.kind = Arc::from("nobody"));
    for row in &mut records.trace[1..] {
        (row.tx, row.at, row.began) = (2, SECOND, SECOND);
    }
    let letter = &mut records.trace[2];
    (letter.attempt, letter.cause) = (0, Some(Arc::from("unhandled")));
    let facts = letter.facts.as_mut().expect("a letter has a content");
    Arc::make_mut(facts).error = None;
    records
}

/// Its payload and its error have a secret.
fn redacted() -> Records {
    let mut records = rejected();
    records.terms.redacts = true;
    records.handlers[1].error = Some("with secret-70".to_owned());
    carry(&mut records, 0, |facts| {
        facts.payload = Arc::from(r#"{"key": 70, "secret": "secret-70"}"#);
    });
    carry(&mut records, 4, |facts| {
        facts.payload = Arc::from(r#"{"key": 70, "secret": "[redacted]"}"#);
        facts.error = Some(Arc::from("with [redacted]"));
    });
    records
}

/// A client erases it while it waits.
fn erased() -> Records {
    let mut records = succeeded();
    records.handlers.clear();
    records.trace.truncate(2);
    records.trace[1].process = Arc::from("enqueuer-1.1");
    let event = ClientEvent::Invoked {
        operation: Operation::Erase,
        keys: Vec::new(),
        ids: Vec::new(),
    };
    records.history.push(HistoryLine {
        at: 5,
        process: "enqueuer-1.1".to_owned(),
        op: 9,
        event,
    });
    records
}

#[test]
fn an_erasure_of_a_redriven_letter_frees_its_position() {
    let mut records = captured();
    let mut sent = records.trace[0].clone();
    (sent.tx, sent.at, sent.seq, sent.change) = (9, 40, 400, Change::Updated);
    sent.state = Some(Arc::from("redriving"));
    let mut back = change(9, 40, Place::Ready, Change::In);
    back.generation = 1;
    let mut gone = change(10, 50, Place::Letter, Change::Out);
    gone.state = Some(Arc::from("redriving"));
    let mut out = change(10, 50, Place::Ready, Change::Out);
    out.generation = 1;
    let mut next = records.trace[0].clone();
    (next.job, next.tx, next.at, next.seq) = (JOB + 1, 11, 60, 600);
    records.trace.extend([sent, back, out, gone, next]);
    assert!(!rules(&records).contains(&Rule::Capture));
    records.trace.drain(3..5);
    assert!(rules(&records).contains(&Rule::Capture), "not erased");
}

#[test]
fn correct_ends_of_waiting_jobs_have_no_violations() {
    for (what, life) in [
        ("expired", expired as fn() -> Records),
        ("raised", raised),
        ("unhandled", unhandled),
        ("redacted", redacted),
        ("erased", erased),
    ] {
        assert_eq!(rules(&life()), [], "{what}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn every_wrong_end_of_a_waiting_job_violates_its_rule() {
    let cases: &[Case] = &[
        (
            "expired too early",
            expired,
            |r| {
                for row in &mut r.trace[3..] {
                    row.at = 1000;
                }
            },
            Rule::Cause,
        ),
        (
            "expired without a limit",
            expired,
            |r| carry(r, 0, |facts| facts.headers = None),
            Rule::Cause,
        ),
        (
            "expired after an attempt",
            expired,
            |r| r.handlers = succeeded().handlers,
            Rule::Cause,
        ),
        (
            "raised too early",
            raised,
            |r| {
                for row in &mut r.trace[1..] {
                    row.at = 2 * SECOND - 1;
                }
            },
            Rule::Aged,
        ),
        (
            "raised twice",
            raised,
            |r| {
                carry(r, 0, |facts| facts.priority = 20);
                carry(r, 2, |facts| facts.priority = 21);
            },
            Rule::Aged,
        ),
        (
            "raised to another priority",
            raised,
            |r| carry(r, 2, |facts| facts.priority = 19),
            Rule::Content,
        ),
        (
            "raised without a trace of its priority",
            raised,
            |r| {
                carry(r, 2, |facts| {
                    facts.headers = Some(Arc::from(r#"{"a": "b"}"#));
                });
            },
            Rule::Content,
        ),
        (
            "buried, although workers handle it",
            unhandled,
            |r| carry(r, 0, |facts| facts.kind = Arc::from("work")),
            Rule::Cause,
        ),
        (
            "buried before it was due",
            unhandled,
            |r| {
                for row in &mut r.trace[..2] {
                    row.place = Place::Delayed;
                }
            },
            Rule::Cause,
        ),
        (
            "a secret in the payload of a letter",
            redacted,
            |r| {
                carry(r, 4, |facts| {
                    facts.payload = Arc::from(r#"{"key": 70, "secret": "secret-70"}"#);
                });
            },
            Rule::Content,
        ),
        (
            "an error that was lost with its secret",
            redacted,
            |r| carry(r, 4, |facts| facts.error = Some(Arc::from("[redacted]"))),
            Rule::History,
        ),
        (
            "an entry of the history with its secret",
            redacted,
            |r| {
                let text = history("failed").replace("no", "secret-1");
                carry(r, 0, |facts| facts.history = None);
                if let Some(facts) = &mut r.trace[4].facts {
                    Arc::make_mut(facts).history = Some(Arc::from(text));
                }
            },
            Rule::History,
        ),
        (
            "erased without a request",
            erased,
            |r| drop(r.history.pop()),
            Rule::Kept,
        ),
    ];
    check_cases(cases);
}
