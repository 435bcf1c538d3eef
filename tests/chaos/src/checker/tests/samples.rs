//! Records of correct histories of one job.

use std::sync::Arc;

use uuid::Uuid;

use crate::checker::{FinalRow, Records, Terms};
use crate::db_trace::{Change, Place, Renewal, RowChange};
use crate::facts::Facts;
use crate::history::{ClientEvent, HandlerEvent, HistoryLine, Operation, Phase};

/// A job that is enqueued at 0, claimed at 10 and ended at 30, with a lease of a second.
pub(super) const JOB: i64 = 7;
const KEY: i64 = 70;
/// When its retry is due: one step of the backoff after its first attempt.
pub(super) const DUE: i64 = 150_031;

pub(super) fn change(tx: i64, at: i64, place: Place, kind: Change) -> RowChange {
    RowChange {
        seq: at * 10 + i64::from(kind == Change::In),
        at,
        began: at,
        committed: at,
        tx,
        process: Arc::from("worker-1.1"),
        job: JOB,
        place,
        change: kind,
        attempt: 0,
        max_attempts: 4,
        generation: 0,
        crashes: 0,
        refunds: 0,
        lease: (place == Place::Leased).then(|| Uuid::from_u128(1)),
        worker: Some(Uuid::from_u128(9)),
        state: None,
        cause: None,
        key: None,
        unique_key: None,
        due: None,
        ready_at: None,
        is_partial: false,
        is_waiting: false,
        is_archived: false,
        facts: (kind != Change::Out).then(|| Arc::new(facts(None))),
    }
}

/// What the job carries, with this history.
pub(super) fn facts(history: Option<&str>) -> Facts {
    Facts {
        queue: Arc::from("chaos"),
        kind: Arc::from("work"),
        priority: 3,
        payload: Arc::from(r#"{"key": 70}"#),
        enqueued: 0,
        headers: Some(Arc::from(r#"{"a": "b"}"#)),
        group_key: Some(Arc::from("g")),
        unique_key: None,
        history: history.map(Arc::from),
        error: None,
        class: None,
        died_at: None,
        position: None,
    }
}

/// The history after its first attempt ended like this.
pub(super) fn history(outcome: &str) -> String {
    format!(
        r#"[{{"generation": 0, "attempt": 1, "outcome": "{outcome}", "error_class": "Bad", "error_message": "no"}}]"#
    )
}

pub(super) fn handler_event(at: i64, phase: Phase) -> HandlerEvent {
    HandlerEvent {
        at,
        process: "worker-1.1".to_owned(),
        job: JOB,
        generation: 0,
        attempt: 1,
        call: 0,
        is_transactional: false,
        phase,
        checkpoint: None,
        batch: None,
        error: (phase != Phase::Begin).then(|| "no".to_owned()),
        class: (phase != Phase::Begin).then(|| "Bad".to_owned()),
    }
}

pub(super) fn line(at: i64, event: ClientEvent) -> HistoryLine {
    HistoryLine {
        at,
        process: "enqueuer-1.1".to_owned(),
        op: 1,
        event,
    }
}

/// The job succeeds.
pub(super) fn succeeded() -> Records {
    let mut stored = change(1, 0, Place::Ready, Change::In);
    stored.process = Arc::from("enqueuer-1.1");
    stored.key = Some(KEY);
    let mut leased = change(2, 10, Place::Leased, Change::In);
    leased.attempt = 1;
    let mut ended = change(3, 30, Place::Leased, Change::Out);
    ended.attempt = 1;
    let invoked = ClientEvent::Invoked {
        operation: Operation::Enqueue,
        keys: vec![KEY],
        ids: Vec::new(),
    };
    Records {
        history: vec![
            line(-1, invoked),
            line(1, ClientEvent::Ok { ids: vec![JOB] }),
        ],
        trace: vec![
            stored,
            change(2, 10, Place::Ready, Change::Out),
            leased,
            ended,
        ],
        renewals: vec![Renewal {
            at: 7,
            began: 5,
            worker: Uuid::from_u128(9),
            process: Arc::from("worker-1.1"),
            queue: Arc::from("chaos"),
        }],
        handlers: vec![
            handler_event(15, Phase::Begin),
            handler_event(25, Phase::Done),
        ],
        terms: Terms {
            lease: 1_000_000,
            max_crashes: 3,
            max_refunds: 10,
            is_calm: true,
            ..Terms::default()
        },
        ..Records::default()
    }
}

/// Its handler fails, and it is ready for the second attempt.
pub(super) fn retried() -> Records {
    let mut records = succeeded();
    records.handlers[1].phase = Phase::Retry;
    let mut back = change(3, 31, Place::Delayed, Change::In);
    (back.attempt, back.due) = (1, Some(DUE));
    let (mut out, mut ready) = (
        change(4, DUE + 5, Place::Delayed, Change::Out),
        change(4, DUE + 5, Place::Ready, Change::In),
    );
    (out.attempt, out.due, ready.attempt) = (1, Some(DUE), 1);
    let failed = Arc::new(facts(Some(&history("failed"))));
    (back.facts, ready.facts) = (Some(Arc::clone(&failed)), Some(failed));
    records.trace.extend([back, out, ready]);
    records.final_rows.push(FinalRow {
        job: JOB,
        place: Place::Ready,
    });
    records
}

/// Its handler rejects it.
pub(super) fn rejected() -> Records {
    let mut records = succeeded();
    records.handlers[1].phase = Phase::Reject;
    let mut letter = change(3, 31, Place::Letter, Change::In);
    letter.attempt = 1;
    letter.state = Some(Arc::from("open"));
    letter.cause = Some(Arc::from("rejected"));
    letter.facts = Some(Arc::new(Facts {
        error: Some(Arc::from("no")),
        class: Some(Arc::from("Bad")),
        ..facts(Some("[]"))
    }));
    records.trace.push(letter);
    records.final_rows.push(FinalRow {
        job: JOB,
        place: Place::Letter,
    });
    records
}

/// It is cancelled while leased, and its worker releases it without an attempt.
pub(super) fn cancelled() -> Records {
    let mut records = rejected();
    records.handlers.clear();
    records.trace[4].attempt = 0;
    records.trace[4].cause = Some(Arc::from("manual"));
    records.trace[4].facts = Some(Arc::new(facts(Some("[]"))));
    let invoked = ClientEvent::Invoked {
        operation: Operation::Cancel,
        keys: Vec::new(),
        ids: vec![JOB],
    };
    records.history.push(line(12, invoked));
    records
}

/// It is cancelled while leased, and the transaction of its handler cannot begin.
pub(super) fn cancelled_before_it_began() -> Records {
    let mut records = cancelled();
    records.trace[4].attempt = 1;
    records.terms.is_calm = false;
    records
}

/// Gives the job a unique key.
pub(super) fn give_key(change: &mut RowChange) {
    let key: Option<Arc<str>> = Some(Arc::from("k"));
    change.unique_key.clone_from(&key);
    if let Some(facts) = &mut change.facts {
        Arc::make_mut(facts).unique_key = key;
    }
}

/// It has a unique key, and its end commits so slowly that another enqueue still sees it live.
pub(super) fn slowly_committed() -> Records {
    let mut records = succeeded();
    for change in &mut records.trace {
        give_key(change);
    }
    records.trace[3].committed = 900_000;
    let invoked = ClientEvent::Invoked {
        operation: Operation::Enqueue,
        keys: vec![KEY + 1],
        ids: Vec::new(),
    };
    let answer = ClientEvent::Ok { ids: vec![-JOB] };
    records
        .history
        .extend(
            [(800_000, invoked), (800_001, answer)].map(|(at, event)| HistoryLine {
                op: 2,
                ..line(at, event)
            }),
        );
    records
}

/// Another worker reaps its lease at this time.
pub(super) fn reaped(at: i64) -> Records {
    let mut records = succeeded();
    records.handlers.pop();
    records.trace[3].at = at;
    records.trace[3].began = at;
    records.trace[3].process = Arc::from("worker-2.1");
    let mut back = change(3, at, Place::Ready, Change::In);
    back.process = Arc::from("worker-2.1");
    back.crashes = 1;
    back.facts = Some(Arc::new(facts(Some(&history("worker_lost")))));
    records.trace.push(back);
    records.final_rows.push(FinalRow {
        job: JOB,
        place: Place::Ready,
    });
    records
}

/// Another worker reaps its lease, and the first one claims it again.
pub(super) fn claimed_by_the_lost_worker() -> Records {
    let mut records = reaped(1_000_006);
    records.final_rows[0].place = Place::Leased;
    let mut out = change(9, 1_000_120, Place::Ready, Change::Out);
    let mut leased = change(9, 1_000_120, Place::Leased, Change::In);
    (out.crashes, leased.crashes, leased.attempt) = (1, 1, 1);
    leased.lease = Some(Uuid::from_u128(2));
    leased.facts.clone_from(&records.trace[4].facts);
    records.trace.extend([out, leased]);
    records
}

/// The reap is slow, and the worker renews after the statement began.
pub(super) fn slowly_reaped() -> Records {
    let mut records = reaped(1_000_006);
    for change in &mut records.trace[3..] {
        change.at += 900_000;
    }
    let renewal = Renewal {
        at: 1_000_106,
        began: 1_000_100,
        ..records.renewals[0].clone()
    };
    records.renewals.push(renewal);
    records
}
