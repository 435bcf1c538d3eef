//! A correct history has no violations, and a broken one violates a rule. The mutants of redrive show the other rules.

use std::collections::HashSet;
use std::sync::Arc;

use super::*;
use crate::facts::Facts;
use crate::history::{ClientEvent, Operation, Phase};
use crate::mutant::MUTANTS;

/// The job of the history, and the key in its payload.
const JOB: i64 = 7;
const KEY: i64 = 70;
const SECOND: i64 = 1_000_000;

/// How a job enters and leaves places.
const READY: (Place, Change) = (Place::Ready, Change::In);
const LEASED: (Place, Change) = (Place::Leased, Change::In);
const UNLEASED: (Place, Change) = (Place::Leased, Change::Out);

fn facts(key: i64) -> Arc<Facts> {
    Arc::new(Facts {
        queue: Arc::from("chaos"),
        kind: Arc::from("work"),
        payload: Arc::from(format!(r#"{{"key": {key}}}"#)),
        ..Facts::default()
    })
}

fn row(tx: i64, at: i64, (place, change): (Place, Change), attempt: i32) -> RowChange {
    RowChange {
        seq: 10 * at + i64::from(change == Change::In),
        at,
        began: at,
        committed: at,
        tx,
        process: Arc::from("worker-1.1"),
        job: JOB,
        place,
        change,
        attempt,
        max_attempts: 4,
        lease: (place == Place::Leased).then_some(Uuid::from_u128(1)),
        worker: Some(Uuid::from_u128(9)),
        facts: (change != Change::Out).then(|| facts(KEY)),
        ..RowChange::default()
    }
}

fn handled(at: i64, phase: Phase) -> HandlerEvent {
    HandlerEvent {
        at,
        process: "worker-1.1".to_owned(),
        job: JOB,
        generation: 0,
        attempt: 1,
        call: 0,
        is_transactional: false,
        phase,
        error: None,
        checkpoint: None,
        batch: None,
    }
}

/// An operation, and its answer.
fn called(operation: Operation, at: i64, keys: &[i64], answer: i64) -> [HistoryLine; 2] {
    let invoked = ClientEvent::Invoked {
        operation,
        keys: keys.to_vec(),
        ids: vec![answer.abs()],
    };
    let ok = ClientEvent::Ok { ids: vec![answer] };
    [invoked, ok].map(|event| HistoryLine {
        at,
        process: "enqueuer-1.1".to_owned(),
        op: at.unsigned_abs(),
        event,
    })
}

/// A job is enqueued at 0, claimed at 10 and done at 30.
fn succeeded() -> Records {
    let enqueued = RowChange {
        process: Arc::from("enqueuer-1.1"),
        ..row(1, 0, READY, 0)
    };
    let moved = [
        row(2, 10, (Place::Ready, Change::Out), 0),
        row(2, 10, LEASED, 1),
        row(3, 30, UNLEASED, 1),
    ];
    Records {
        history: called(Operation::Enqueue, 0, &[KEY], JOB).to_vec(),
        trace: [enqueued].into_iter().chain(moved).collect(),
        renewals: vec![Renewal {
            at: 7,
            began: 5,
            worker: Uuid::from_u128(9),
        }],
        handlers: vec![handled(15, Phase::Begin), handled(25, Phase::Done)],
        terms: Terms {
            lease: SECOND,
            is_calm: true,
            ..Terms::default()
        },
        ..Records::default()
    }
}

/// The job leaves its lease by a reap, and its worker gets it again.
fn claimed_again(records: &mut Records) {
    let by_other = |row: RowChange| RowChange {
        process: Arc::from("worker-2.1"),
        ..row
    };
    let suspect = |row: RowChange| RowChange {
        crashes: 1,
        lease: row.lease.map(|_| Uuid::from_u128(2)),
        ..row
    };
    let at = SECOND + 6;
    records.trace.truncate(3);
    records.trace.extend([
        by_other(row(3, at, UNLEASED, 1)),
        suspect(by_other(row(3, at, READY, 0))),
        suspect(row(4, at + 100, (Place::Ready, Change::Out), 0)),
        suspect(row(4, at + 100, LEASED, 1)),
    ]);
}

/// What breaks the history, and the rule.
type Case = (&'static str, fn(&mut Records), Rule);

const BROKEN: &[Case] = &[
    (
        "a failed enqueue that is stored",
        |r| {
            r.history[1].event = ClientEvent::Failed {
                error: String::new(),
            };
        },
        Rule::Honest,
    ),
    (
        "a job that nobody enqueued",
        |r| r.history.clear(),
        Rule::NotInvented,
    ),
    (
        "a job in two places",
        |r| drop(r.trace.remove(1)),
        Rule::OnePlace,
    ),
    (
        "an attempt without a claim",
        |r| r.handlers[0].attempt = 3,
        Rule::Attempts,
    ),
    (
        "two attempts under one lease",
        |r| r.handlers.insert(1, handled(16, Phase::Begin)),
        Rule::NoOverlap,
    ),
    (
        "a transaction without its effect",
        |r| r.handlers[0].is_transactional = true,
        Rule::OneTransaction,
    ),
    (
        "a content that is not there",
        |r| r.trace[2].facts = None,
        Rule::Content,
    ),
    (
        "a follow-up of no success",
        |r| {
            r.trace.push(RowChange {
                job: JOB + 1,
                facts: Some(facts(-KEY)),
                ..row(9, 31, READY, 0)
            });
        },
        Rule::FollowUp,
    ),
    (
        "a move that changes since when the job is ready",
        |r| {
            r.trace[0].ready_at = Some(0);
            let out = row(8, 5, (Place::Ready, Change::Out), 0);
            let back = RowChange {
                ready_at: Some(3),
                ..row(8, 5, READY, 0)
            };
            drop(r.trace.splice(1..1, [out, back]));
        },
        Rule::ReadySince,
    ),
    (
        "a job that stays in its lease",
        |r| r.trace.truncate(3),
        Rule::NotStuck,
    ),
];

fn rules(records: &Records) -> Vec<Rule> {
    let violations = check(records).violations;
    violations.iter().map(|violation| violation.rule).collect()
}

#[test]
fn a_history_violates_its_rule_once_it_is_broken() {
    let found = rules(&succeeded());
    assert!(found.is_empty(), "{found:?}");
    for (what, change, rule) in BROKEN {
        let mut records = succeeded();
        change(&mut records);
        let found = rules(&records);
        assert!(found.contains(rule), "{what}: {found:?}");
    }
}

#[test]
fn a_fault_excuses_an_attempt_under_a_lost_lease_after_its_process_got_the_job_again() {
    let mut records = succeeded();
    claimed_again(&mut records);
    records.terms.is_calm = false;
    let begins = [130, 131].map(|at| handled(SECOND + at, Phase::Begin));
    records.handlers = begins.to_vec();
    let found = rules(&records);
    assert!(!found.contains(&Rule::NoOverlap), "{found:?}");
}

#[test]
fn an_error_that_a_handler_returns_as_its_worker_stops_is_not_charged() {
    for (phase, is_lawful) in [(Phase::Retry, true), (Phase::Done, false)] {
        let mut records = succeeded();
        records.handlers[1].phase = phase;
        let refunded = RowChange {
            refunds: 1,
            ..row(3, 30, READY, 0)
        };
        records.trace.push(refunded);
        assert!(rules(&records).contains(&Rule::Verdict));
        let event = ClientEvent::Exited { code: Some(0) };
        records.history.push(HistoryLine {
            at: 40,
            process: "worker-1.1".to_owned(),
            op: 0,
            event,
        });
        let found = rules(&records);
        assert_eq!(!found.contains(&Rule::Verdict), is_lawful, "{found:?}");
    }
}

#[test]
fn a_verdict_that_a_fault_excuses_is_counted() {
    // Its worker returned the job although its handler had succeeded.
    let mut records = succeeded();
    records.trace.push(row(3, 30, READY, 0));
    assert!(rules(&records).contains(&Rule::Verdict));
    records.terms.is_calm = false;
    assert!(!rules(&records).contains(&Rule::Verdict));
    let counted = check(&records).times("verdicts that a fault excuses");
    assert_eq!(counted, 1);
}

#[test]
fn a_failover_excuses_what_the_database_lost_in_its_time() {
    let without_trace = |lossy| {
        let mut records = succeeded();
        records.trace.clear();
        records.terms.lossy.push(lossy);
        rules(&records)
    };
    assert!(without_trace(0..=15).is_empty());
    assert_eq!(without_trace(1..=15), [Rule::Honest]);
    assert_eq!(without_trace(0..=14), [Rule::NotInvented]);
}

#[test]
fn every_rule_is_broken_by_some_history_or_mutant() {
    let by_mutants = MUTANTS.iter().flat_map(|mutant| mutant.rules);
    let by_histories = BROKEN.iter().map(|(.., rule)| rule);
    let broken: HashSet<&Rule> = by_histories.chain(by_mutants).collect();
    for rule in Rule::ALL {
        assert!(broken.contains(rule), "{rule}");
    }
}
