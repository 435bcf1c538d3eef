//! Records of two jobs in a batch.

use std::sync::Arc;

use uuid::Uuid;

use super::changed::claimed_again;
use super::samples::{
    DUE, JOB, change, claimed_by_the_lost_worker, handler_event, retried, succeeded,
};
use super::{Case, check_cases, rules};
use crate::checker::{Path, Records, Rule, check};
use crate::db_trace::{Change, Place};
use crate::history::{ClientEvent, HandlerEvent, InBatch, Operation, Phase};

/// The other job of the batch.
const OTHER: i64 = JOB + 1;
/// When the second attempt at the other job is claimed; see [`claimed_again`].
const AGAIN: i64 = DUE + 50_000;

fn in_batch(event: HandlerEvent, number: u64, jobs: usize) -> HandlerEvent {
    HandlerEvent {
        batch: Some(InBatch { number, jobs }),
        ..event
    }
}

/// A job of a batch succeeds. The other one fails, runs again alone, and succeeds.
fn split() -> Records {
    let mut records = succeeded();
    let other = claimed_again(retried());
    for mut row in other.trace {
        row.job = OTHER;
        row.key = row.key.map(|key| key + 1);
        records.trace.push(row);
    }
    let mut ended = change(13, AGAIN + 40, Place::Leased, Change::Out);
    (ended.job, ended.attempt, ended.lease) = (OTHER, 2, Some(Uuid::from_u128(2)));
    records.trace.push(ended);
    records.history[0].event = ClientEvent::Invoked {
        operation: Operation::Enqueue,
        keys: vec![70, 71],
        ids: Vec::new(),
    };
    let ids = vec![JOB, OTHER];
    records.history[1].event = ClientEvent::Ok { ids };
    let together = |event| in_batch(event, 1, 2);
    let of_other = |at, phase, attempt| HandlerEvent {
        job: OTHER,
        attempt,
        ..handler_event(at, phase)
    };
    records.handlers = vec![
        together(handler_event(15, Phase::Begin)),
        together(handler_event(25, Phase::Done)),
        together(of_other(15, Phase::Begin, 1)),
        together(of_other(25, Phase::Retry, 1)),
        in_batch(of_other(AGAIN + 10, Phase::Begin, 2), 2, 1),
        in_batch(of_other(AGAIN + 20, Phase::Done, 2), 2, 1),
    ];
    records
}

/// A job loses its worker and is claimed again.
fn suspected() -> Records {
    let mut records = claimed_by_the_lost_worker();
    let begin = in_batch(handler_event(1_000_130, Phase::Begin), 3, 1);
    records.handlers.push(begin);
    records
}

#[test]
fn a_batch_that_is_split_has_no_violations() {
    assert_eq!(rules(&split()), []);
    let paths = check(&split()).paths;
    let times = (paths.times(Path::Batched), paths.times(Path::BatchSplit));
    assert_eq!(times, (2, 1));
    let found = rules(&suspected());
    assert!(!found.contains(&Rule::Batch), "{found:?}");
}

#[test]
fn a_retry_that_a_failover_may_have_lost_may_run_with_others_again() {
    let mut records = split();
    set_jobs(&mut records, 4, 2);
    assert!(rules(&records).contains(&Rule::Batch));
    records.terms.lossy_windows.push((0, AGAIN));
    assert!(!rules(&records).contains(&Rule::Batch));
}

/// Changes how many jobs the batch of an event has.
fn set_jobs(records: &mut Records, event: usize, jobs: usize) {
    let batch = records.handlers[event].batch.as_mut();
    batch.expect("an event of a batch").jobs = jobs;
}

#[test]
fn every_wrong_history_of_a_batch_violates_its_rule() {
    let cases: &[Case] = &[
        (
            "charged, although only its neighbour failed",
            split,
            |r| r.handlers[3].phase = Phase::Done,
            Rule::Batch,
        ),
        (
            "done, although it failed like its neighbour",
            split,
            |r| r.handlers[1].phase = Phase::Retry,
            Rule::Batch,
        ),
        (
            "again with others after a failure",
            split,
            |r| set_jobs(r, 4, 2),
            Rule::Batch,
        ),
        (
            "with others after a failure that was not charged",
            split,
            |r| {
                for row in r.trace.iter_mut().filter(|row| row.job == OTHER) {
                    let is_first = row.at <= 30;
                    row.attempt -= i32::from(!is_first);
                }
                set_jobs(r, 4, 2);
                r.handlers[4].attempt = 1;
                r.handlers[5].attempt = 1;
            },
            Rule::Batch,
        ),
        (
            "a suspect with others",
            suspected,
            |r| set_jobs(r, 1, 2),
            Rule::Batch,
        ),
        (
            "twice in a batch",
            split,
            |r| {
                for event in &mut r.handlers[4..] {
                    event.batch = Some(InBatch { number: 1, jobs: 2 });
                }
            },
            Rule::Batch,
        ),
        (
            "more jobs than the batch has",
            split,
            |r| {
                for event in 0..4 {
                    set_jobs(r, event, 1);
                }
            },
            Rule::Batch,
        ),
        (
            "a job of another queue",
            split,
            |r| {
                for row in r.trace.iter_mut().filter(|row| row.job == OTHER) {
                    if let Some(facts) = &mut row.facts {
                        Arc::make_mut(facts).queue = Arc::from("other");
                    }
                }
            },
            Rule::Batch,
        ),
    ];
    check_cases(cases);
}
