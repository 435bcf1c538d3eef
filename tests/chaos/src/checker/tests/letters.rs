//! Rows of letters and of the archive, each with one wrong fact.

use std::sync::Arc;

use super::{Case, check_cases, rules};
use crate::checker::{Records, Rule, Terms};
use crate::db_trace::Change;
use crate::db_trace::letters::{LetterCounts, LetterRow, LetterTable};
use crate::history::{ClientEvent, HistoryLine, Operation};

pub(super) const OPERATOR: &str = "operator-1.1";
pub(super) const SECOND: i64 = 1_000_000;

/// A row of the letter at a time, after its first death.
pub(super) fn row(tx: i64, at: i64, change: Change, state: &str) -> LetterRow {
    LetterRow {
        at: at + 2,
        began: at,
        tx,
        process: Arc::from(OPERATOR),
        letter: 7,
        table: LetterTable::Letters,
        change,
        columns: Vec::new(),
        state: Arc::from(state),
        cause: Arc::from("rejected"),
        class: Arc::from("Rejected"),
        message: Arc::from("no"),
        counts: LetterCounts {
            attempts: 2,
            deaths: 1,
            seen: 1,
            ..LetterCounts::default()
        },
        group: 1,
        policy: None,
        run: None,
        changed_at: at + 1,
        died_at: at + 1,
        content: Arc::from("content"),
        has_secret: false,
    }
}

/// The next change of the letter.
pub(super) fn updated(
    before: &LetterRow,
    tx: i64,
    at: i64,
    state: &str,
    columns: &[&str],
) -> LetterRow {
    LetterRow {
        columns: columns.iter().map(|column| (*column).to_owned()).collect(),
        counts: before.counts,
        cause: Arc::clone(&before.cause),
        policy: before.policy,
        died_at: before.died_at,
        ..row(tx, at, Change::Updated, state)
    }
}

pub(super) fn records(letters: Vec<LetterRow>) -> Records {
    Records {
        letters,
        terms: Terms {
            redacts: true,
            ..Terms::default()
        },
        ..Records::default()
    }
}

/// Adds an operation that the operator asked for all the time.
pub(super) fn ask(records: &mut Records, operation: Operation) {
    let event = ClientEvent::Invoked {
        operation,
        keys: Vec::new(),
        ids: Vec::new(),
    };
    let op = records.history.len() as u64 + 1;
    records.history.push(HistoryLine {
        at: 0,
        process: OPERATOR.to_owned(),
        op,
        event,
    });
}

/// Its job dies, is sent back and dies again.
fn died_again() -> Records {
    let died = row(1, 10, Change::In, "open");
    let sent = updated(
        &died,
        2,
        20,
        "redriving",
        &["state", "changed_at", "events"],
    );
    let columns = [
        "state",
        "generation",
        "died_at",
        "changed_at",
        "deaths",
        "events",
    ];
    let mut again = updated(&sent, 3, 30, "open", &columns);
    again.died_at = 31;
    again.counts = LetterCounts {
        generation: 1,
        attempts: 1,
        earlier: 2,
        deaths: 2,
        alike: 1,
        failed: 1,
        edits: 0,
        seen: 1,
    };
    records(vec![died, sent, again])
}

/// Its waiting job is cancelled in bulk.
fn cancelled_in_bulk() -> Records {
    let died = LetterRow {
        cause: Arc::from("manual"),
        class: Arc::from("cancelled"),
        ..row(1, 10, Change::In, "open")
    };
    let audited = LetterRow {
        class: Arc::clone(&died.class),
        ..updated(&died, 1, 10, "open", &["audit_id"])
    };
    records(vec![died, audited])
}

/// It is edited.
fn edited() -> Records {
    let died = row(1, 10, Change::In, "open");
    let columns = ["edits", "payload", "changed_at", "events", "audit_id"];
    let mut edited = updated(&died, 2, 20, "open", &columns);
    edited.counts.edits = 1;
    records(vec![died, edited])
}

/// Three redrives end in the same error, so that it is quarantined. It is discarded and reopened.
fn reopened() -> Records {
    let mut records = died_again();
    for round in 1..3 {
        let before = records.letters[2 * round].clone();
        let at = [0, 100, 200][round];
        let columns = ["state", "changed_at", "events"];
        let sent = updated(&before, at, at, "redriving", &columns);
        let mut again = records.letters[2].clone();
        (again.tx, again.began, again.at) = (at + 1, at + 10, at + 12);
        (again.changed_at, again.died_at) = (at + 11, at + 11);
        again.counts = LetterCounts {
            generation: before.counts.generation + 1,
            earlier: before.counts.earlier + 1,
            deaths: before.counts.deaths + 1,
            alike: before.counts.alike + 1,
            failed: before.counts.failed + 1,
            ..before.counts
        };
        if round == 2 {
            again.state = Arc::from("quarantined");
        }
        records.letters.extend([sent, again]);
    }
    let columns = [
        "state",
        "changed_at",
        "events",
        "audit_id",
        "discard_reason",
    ];
    let discarded = updated(&records.letters[6], 900, 900, "discarded", &columns);
    let reopened = updated(&discarded, 901, 910, "quarantined", &columns);
    records.letters.extend([discarded, reopened]);
    records
}

#[test]
fn correct_letters_have_no_violations() {
    for (what, life) in [
        ("died again", died_again as fn() -> Records),
        ("edited", edited),
        ("cancelled in bulk", cancelled_in_bulk),
        ("reopened", reopened),
    ] {
        let records = life();
        assert_eq!(rules(&records), [], "{what}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn every_wrong_change_of_a_letter_violates_its_rule() {
    let cases: &[Case] = &[
        (
            "a redrive that changes the priority",
            died_again,
            |r| r.letters[1].columns.push("priority".to_owned()),
            Rule::Unpredicted,
        ),
        (
            "a redrive that keeps the time of the change",
            died_again,
            |r| drop(r.letters[1].columns.remove(1)),
            Rule::Unpredicted,
        ),
        (
            "an operation that is recorded later",
            cancelled_in_bulk,
            |r| r.letters[1].tx = 2,
            Rule::Unpredicted,
        ),
        (
            "an operation that is recorded for a failure of a handler",
            cancelled_in_bulk,
            |r| {
                for row in &mut r.letters {
                    row.cause = Arc::from("rejected");
                }
            },
            Rule::Unpredicted,
        ),
        (
            "a death with another time",
            died_again,
            |r| r.letters[2].died_at = 9,
            Rule::Unpredicted,
        ),
        (
            "a discarded letter that is redriven",
            died_again,
            |r| r.letters[0].state = Arc::from("discarded"),
            Rule::Unpredicted,
        ),
        (
            "a column that no operation changes",
            edited,
            |r| r.letters[1].columns = vec!["content_type".to_owned()],
            Rule::Unpredicted,
        ),
        (
            "a death that is not counted",
            died_again,
            |r| r.letters[2].counts.deaths = 1,
            Rule::LetterCounts,
        ),
        (
            "a death that loses the earlier attempts",
            died_again,
            |r| r.letters[2].counts.earlier = 0,
            Rule::LetterCounts,
        ),
        (
            "a death that is alike and not counted",
            died_again,
            |r| r.letters[2].counts.alike = 0,
            Rule::LetterCounts,
        ),
        (
            "a failed redrive that is not counted",
            died_again,
            |r| r.letters[2].counts.failed = 0,
            Rule::LetterCounts,
        ),
        (
            "a letter that is quarantined too early",
            died_again,
            |r| r.letters[2].state = Arc::from("quarantined"),
            Rule::LetterCounts,
        ),
        (
            "a letter that is not quarantined at its limit",
            reopened,
            |r| {
                r.letters.truncate(7);
                r.letters[6].state = Arc::from("open");
            },
            Rule::LetterCounts,
        ),
        (
            "a quarantined letter that is reopened as an open one",
            reopened,
            |r| r.letters[8].state = Arc::from("open"),
            Rule::LetterCounts,
        ),
        (
            "a new letter with edits",
            died_again,
            |r| r.letters[0].counts.edits = 1,
            Rule::LetterCounts,
        ),
        (
            "an edit that is not counted",
            edited,
            |r| r.letters[1].counts.edits = 0,
            Rule::LetterCounts,
        ),
        (
            "a lost worker with the error of a handler",
            died_again,
            |r| r.letters[0].cause = Arc::from("worker_lost"),
            Rule::Cause,
        ),
        (
            "a secret in a letter",
            edited,
            |r| r.letters[1].has_secret = true,
            Rule::Redaction,
        ),
    ];
    check_cases(cases);
}
