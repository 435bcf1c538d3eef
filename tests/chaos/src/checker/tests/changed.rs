//! Records of jobs that operators change, and of captures, checkpoints, follow-ups and schedules.

use std::sync::Arc;

use uuid::Uuid;

use super::samples::{
    DUE, JOB, change, facts, handler_event, history, line, rejected, retried, succeeded,
};
use crate::checker::{FinalRow, Records, Tick, TickOutcome};
use crate::db_trace::{Change, Place};
use crate::facts::Facts;
use crate::history::{ClientEvent, HandlerEvent, HistoryLine, Operation, Phase};

/// Its letter is redriven.
pub(super) fn redriven() -> Records {
    let mut records = rejected();
    let letter = records.trace[4].clone();
    let mut sent = change(9, 50, Place::Letter, Change::Updated);
    (sent.attempt, sent.cause, sent.facts) = (1, letter.cause, letter.facts);
    sent.state = Some(Arc::from("redriving"));
    let mut back = change(9, 50, Place::Ready, Change::In);
    back.generation = 1;
    records.trace.extend([sent, back]);
    records.final_rows.push(FinalRow {
        job: JOB,
        place: Place::Ready,
    });
    records
}

/// An operator edits its letter, and it is redriven.
pub(super) fn edited() -> Records {
    let mut records = redriven();
    let mut edit = records.trace[4].clone();
    (edit.tx, edit.at, edit.change) = (8, 40, Change::Edited);
    edit.process = Arc::from("enqueuer-1.1");
    let payload: Arc<str> = Arc::from(r#"{"key": 70, "edited": true}"#);
    records.trace.insert(5, edit);
    for row in &mut records.trace[5..] {
        let facts = row.facts.as_mut().expect("each row has a content");
        Arc::make_mut(facts).payload = Arc::clone(&payload);
    }
    ask(&mut records, Operation::Edit, 39, 41);
    records
}

/// An operator changes its priority while it is delayed.
pub(super) fn reordered() -> Records {
    let mut records = retried();
    let mut reorder = records.trace[4].clone();
    (reorder.tx, reorder.at, reorder.change) = (8, 40, Change::Edited);
    reorder.process = Arc::from("enqueuer-1.1");
    records.trace.insert(5, reorder);
    for row in [5, 7] {
        let facts = records.trace[row].facts.as_mut();
        Arc::make_mut(facts.expect("the row has a content")).priority = 9;
    }
    ask(&mut records, Operation::Priority, 39, 41);
    records
}

/// Adds an operation without jobs to the history.
fn ask(records: &mut Records, operation: Operation, from: i64, to: i64) {
    let invoked = ClientEvent::Invoked {
        operation,
        keys: Vec::new(),
        ids: Vec::new(),
    };
    let answer = ClientEvent::Ok { ids: Vec::new() };
    let lines = [(from, invoked), (to, answer)].map(|(at, event)| HistoryLine {
        op: 5,
        ..line(at, event)
    });
    records.history.extend(lines);
}

/// It dies for the third time, so that only force redrives it. Then its state changes.
pub(super) fn quarantined() -> Records {
    let mut records = redriven();
    records.trace[4].state = Some(Arc::from("quarantined"));
    records
}

/// Its handler writes a checkpoint and fails.
pub(super) fn checkpointed() -> Records {
    let mut records = retried();
    records.checkpoints = vec![HandlerEvent {
        checkpoint: Some(1),
        ..handler_event(20, Phase::Checkpoint)
    }];
    let mut stored = change(5, 28, Place::Leased, Change::Edited);
    stored.attempt = 1;
    records.trace.insert(3, stored);
    for row in [3, 5, 7] {
        let facts = records.trace[row].facts.as_mut();
        let headers = r#"{"a": "b", "redrive-checkpoint": "1"}"#;
        Arc::make_mut(facts.expect("the row has a content")).headers = Some(Arc::from(headers));
    }
    records
}

/// Its success stores a follow-up.
pub(super) fn followed_up() -> Records {
    let mut records = succeeded();
    for row in &mut records.trace[..3] {
        if let Some(facts) = &mut row.facts {
            Arc::make_mut(facts).payload = Arc::from(r#"{"key": 70, "follow_ups": 1}"#);
        }
    }
    let mut child = change(3, 31, Place::Ready, Change::In);
    (child.job, child.key) = (JOB + 1, Some(-560));
    records.trace.push(child);
    records.final_rows.push(FinalRow {
        job: JOB + 1,
        place: Place::Ready,
    });
    records
}

/// It is claimed once more, after its retry was promoted.
pub(super) fn claimed_again(mut records: Records) -> Records {
    let at = DUE + 50_000;
    let mut out = change(12, at, Place::Ready, Change::Out);
    let mut leased = change(12, at, Place::Leased, Change::In);
    leased.lease = Some(Uuid::from_u128(2));
    leased.facts = Some(Arc::new(facts(Some(&history("failed")))));
    (out.attempt, leased.attempt) = (1, 2);
    records.trace.extend([out, leased]);
    records.final_rows[0].place = Place::Leased;
    records
}

/// An operator cancels it at this time, while it runs.
pub(super) fn cancel_running(records: &mut Records, at: i64) {
    let invoked = ClientEvent::Invoked {
        operation: Operation::Cancel,
        keys: Vec::new(),
        ids: vec![JOB],
    };
    let answer = ClientEvent::Ok { ids: vec![-JOB] };
    let lines = [(at, invoked), (at + 1, answer)].map(|(at, event)| HistoryLine {
        op: 6,
        ..line(at, event)
    });
    records.history.extend(lines);
}

/// A letter of the position 3 is captured.
pub(super) fn captured() -> Records {
    let mut letter = change(3, 31, Place::Letter, Change::In);
    letter.state = Some(Arc::from("open"));
    letter.cause = Some(Arc::from("captured"));
    letter.facts = Some(Arc::new(Facts {
        error: Some(Arc::from("no")),
        position: Some(Arc::from("3")),
        ..facts(Some("[]"))
    }));
    let invoked = ClientEvent::Invoked {
        operation: Operation::Capture,
        keys: vec![3],
        ids: Vec::new(),
    };
    Records {
        history: vec![
            line(30, invoked),
            line(32, ClientEvent::Ok { ids: vec![JOB] }),
        ],
        trace: vec![letter],
        final_rows: vec![FinalRow {
            job: JOB,
            place: Place::Letter,
        }],
        ..succeeded()
    }
    .without_handlers()
}

impl Records {
    fn without_handlers(mut self) -> Records {
        self.handlers.clear();
        self
    }
}

/// A schedule ticks, and then misses two ticks. Its job succeeds.
pub(super) fn ticked() -> Records {
    let mut records = succeeded();
    records.history.clear();
    records.trace[0].key = Some(0);
    let tick = |outcome, at, job, ticks| Tick {
        schedule: "chaos-schedule".to_owned(),
        outcome,
        tx: at,
        written: at,
        at,
        job,
        ticks,
    };
    records.ticks = vec![
        tick(TickOutcome::Fired, 1_000_000, Some(JOB), 1),
        tick(TickOutcome::Missed, 3_000_000, None, 2),
    ];
    records
}
