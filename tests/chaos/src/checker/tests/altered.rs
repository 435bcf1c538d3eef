//! Changes of waiting jobs, each with one wrong fact.

use std::sync::Arc;

use super::samples::{JOB, change, line, retried, succeeded};
use super::{Case, check_cases, rules};
use crate::checker::{FinalRow, Path, Records, Rule, check};
use crate::db_trace::{Change, Place, RowChange};
use crate::facts::Facts;
use crate::history::{ClientEvent, HistoryLine, JobSelection, LiveChange, Operation};

/// When the delayed job is due.
const DUE: i64 = 5_000_000;

/// Adds the second operation of the client, which selects the job.
fn select(records: &mut Records, change: LiveChange) {
    let invoked = ClientEvent::Invoked {
        operation: Operation::ChangeJobs,
        keys: Vec::new(),
        ids: Vec::new(),
    };
    let selects = ClientEvent::Selects(JobSelection {
        change,
        queue: "chaos".to_owned(),
        kind: Some("work".to_owned()),
        least_priority: Some(3),
        limit: 1,
    });
    let answer = ClientEvent::Ok { ids: vec![JOB] };
    let lines = [(39, invoked), (39, selects), (41, answer)];
    records.history.extend(lines.map(|(at, event)| HistoryLine {
        op: 2,
        ..line(at, event)
    }));
}

/// A delayed job enters a place, with this content.
fn moved(place: Place, alter: fn(&mut Facts)) -> Records {
    let mut records = succeeded();
    records.handlers.clear();
    let mut stored = change(1, 0, Place::Delayed, Change::In);
    (stored.key, stored.due) = (Some(70), Some(DUE));
    let mut left = change(2, 40, Place::Delayed, Change::Out);
    left.due = Some(DUE);
    let mut entered = change(2, 40, place, Change::In);
    entered.due = (place == Place::Delayed).then_some(DUE);
    entered.ready_at = (place == Place::Ready).then_some(40);
    alter(facts_of(&mut entered));
    records.trace = vec![stored, left, entered];
    for row in &mut records.trace {
        row.process = Arc::from("enqueuer-1.1");
    }
    records.final_rows.push(FinalRow { job: JOB, place });
    records
}

fn facts_of(row: &mut RowChange) -> &mut Facts {
    Arc::make_mut(row.facts.as_mut().expect("the row has a content"))
}

fn run_now() -> Records {
    let mut records = moved(Place::Ready, |_| {});
    select(&mut records, LiveChange::RunNow);
    records
}

fn reordered() -> Records {
    let mut records = moved(Place::Delayed, |facts| facts.priority = 5);
    select(&mut records, LiveChange::Priority(5));
    records
}

fn edited() -> Records {
    let mut records = moved(Place::Delayed, |facts| {
        facts.payload = Arc::from(r#"{"key": 70, "edited": 4}"#);
    });
    select(&mut records, LiveChange::Edit(4));
    records
}

fn cancelled() -> Records {
    let mut records = moved(Place::Letter, |facts| facts.history = Some(Arc::from("[]")));
    let letter = &mut records.trace[2];
    letter.state = Some(Arc::from("open"));
    letter.cause = Some(Arc::from("manual"));
    select(&mut records, LiveChange::Cancel);
    records
}

/// Changes the filter of the operation.
fn selection(records: &mut Records) -> &mut JobSelection {
    let mut lines = records.history.iter_mut();
    let found = lines.find_map(|line| match &mut line.event {
        ClientEvent::Selects(selection) => Some(selection),
        _ => None,
    });
    found.expect("an operation selects jobs")
}

fn answer(records: &mut Records, ids: Vec<i64>) {
    let last = records.history.last_mut().expect("the answer is last");
    last.event = ClientEvent::Ok { ids };
}

#[test]
fn bulk_changes_of_waiting_jobs_have_no_violations_and_are_counted() {
    for (life, path) in [
        (run_now as fn() -> Records, Path::RunAtOnce),
        (reordered, Path::ReorderedInBulk),
        (edited, Path::EditedWaiting),
        (cancelled, Path::CancelledInBulk),
    ] {
        let records = life();
        assert_eq!(rules(&records), [], "{path}");
        assert_eq!(check(&records).paths.times(path), 1, "{path}");
    }
}

#[test]
fn a_change_without_an_answer_may_take_effect_later() {
    let mut records = run_now();
    records.history.pop();
    for row in &mut records.trace[1..] {
        (row.at, row.began) = (DUE, DUE);
    }
    records.trace[2].ready_at = Some(DUE);
    assert_eq!(rules(&records), []);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn every_wrong_change_of_a_waiting_job_violates_its_rule() {
    let cases: &[Case] = &[
        (
            "run at once without a request",
            run_now,
            |r| r.history.truncate(2),
            Rule::Content,
        ),
        (
            "run at once by another client",
            run_now,
            |r| r.trace[2].process = Arc::from("enqueuer-2.1"),
            Rule::Content,
        ),
        (
            "run at once after the answer",
            run_now,
            |r| r.trace[2].at = 42,
            Rule::Content,
        ),
        (
            "run at once, but ready when it was due",
            run_now,
            |r| r.trace[2].ready_at = Some(DUE),
            Rule::Unpredicted,
        ),
        (
            "promoted, but ready when the promotion came",
            retried,
            |r| r.trace[6].ready_at = Some(r.trace[6].at),
            Rule::Unpredicted,
        ),
        (
            "run at once with another priority",
            run_now,
            |r| facts_of(&mut r.trace[2]).priority = 4,
            Rule::Content,
        ),
        (
            "run at once with another payload",
            run_now,
            |r| facts_of(&mut r.trace[2]).payload = Arc::from("{}"),
            Rule::Content,
        ),
        (
            "run at once without its headers",
            run_now,
            |r| facts_of(&mut r.trace[2]).headers = None,
            Rule::Content,
        ),
        (
            "run at once with fewer attempts",
            run_now,
            |r| r.trace[2].max_attempts = 3,
            Rule::Attempts,
        ),
        (
            "a job of another queue",
            run_now,
            |r| selection(r).queue = "ordered".to_owned(),
            Rule::Unpredicted,
        ),
        (
            "a job of another kind",
            run_now,
            |r| selection(r).kind = Some("batch".to_owned()),
            Rule::Unpredicted,
        ),
        (
            "a job of a lower priority",
            run_now,
            |r| selection(r).least_priority = Some(4),
            Rule::Unpredicted,
        ),
        (
            "more jobs than the limit",
            run_now,
            |r| selection(r).limit = 0,
            Rule::Unpredicted,
        ),
        (
            "a change that the answer leaves out",
            run_now,
            |r| answer(r, Vec::new()),
            Rule::Unpredicted,
        ),
        (
            "a change that did not happen",
            run_now,
            |r| {
                r.trace.truncate(1);
                r.final_rows[0].place = Place::Delayed;
            },
            Rule::Unpredicted,
        ),
        (
            "another priority than the new one",
            reordered,
            |r| facts_of(&mut r.trace[2]).priority = 6,
            Rule::Content,
        ),
        (
            "a new priority that makes the job ready",
            reordered,
            |r| {
                (r.trace[2].place, r.trace[2].due) = (Place::Ready, None);
                r.final_rows[0].place = Place::Ready;
            },
            Rule::Content,
        ),
        (
            "a new priority that delays the job",
            reordered,
            |r| r.trace[2].due = Some(DUE + 1),
            Rule::Content,
        ),
        (
            "an edit of another field",
            edited,
            |r| {
                facts_of(&mut r.trace[2]).payload = Arc::from(r#"{"key": 71, "edited": 4}"#);
            },
            Rule::Content,
        ),
        (
            "cancelled by an operation that edits",
            cancelled,
            |r| selection(r).change = LiveChange::Edit(4),
            Rule::Cause,
        ),
        (
            "cancelled in another queue",
            cancelled,
            |r| selection(r).queue = "ordered".to_owned(),
            Rule::Unpredicted,
        ),
    ];
    check_cases(cases);
}
