//! Records as text, so that a history is as long as what is special about it.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::checker::Records;
use crate::db_trace::RowChange;
use crate::facts::Facts;
use crate::history::{ClientEvent, HandlerEvent, HistoryLine, Phase};

/// The job that most records are about, and the client that enqueues it.
pub(crate) const JOB: i64 = 7;
pub(crate) const CLIENT: &str = "enqueuer-1.1";

/// Short names of fields.
const SHORT: [(&str, &str); 4] = [
    ("by", "process"),
    ("max", "max_attempts"),
    ("group", "group_key"),
    ("ready", "ready_at"),
];

/// Returns a record with changes: `name=value`, separated by spaces. A list has commas, a number may stand for a UUID,
/// and a field without a value is missing. A row begins when it is written, unless another time follows.
pub(crate) fn with<T: Serialize + DeserializeOwned>(record: &T, changes: &str) -> T {
    let mut record = serde_json::to_value(record).expect("a record is JSON");
    for change in changes.split_whitespace() {
        let (name, text) = change.split_once('=').expect(change);
        let long = SHORT.iter().find(|(short, _)| *short == name);
        let changed = values(name, text).into_iter().find_map(|value| {
            let mut changed = record.clone();
            let is_set = set(&mut changed, name, &value)
                || long.is_some_and(|(_, long)| set(&mut changed, long, &value));
            if name == "at" {
                set(&mut changed, "began", &value);
            }
            (is_set && T::deserialize(&changed).is_ok()).then_some(changed)
        });
        record = changed.expect(change);
    }
    serde_json::from_value(record).expect(changes)
}

/// Sets a field of a record and of its parts. Returns whether there is one.
fn set(record: &mut Value, name: &str, value: &Value) -> bool {
    let fields = record.as_object_mut().into_iter().flatten();
    fields.fold(false, |is_set, (field, old)| match field == name {
        true => {
            *old = value.clone();
            true
        }
        false => set(old, name, value) || is_set,
    })
}

/// Returns what a text may stand for.
fn values(name: &str, text: &str) -> Vec<Value> {
    let text = match name == "history" && !text.is_empty() && !text.starts_with('[') {
        true => history(text),
        false => text.to_owned(),
    };
    let list: Value = text.split(',').filter(|item| !item.is_empty()).collect();
    if text.is_empty() {
        return vec![Value::Null, list, Value::from("")];
    }
    let number = text.parse::<i64>().ok();
    let uuid = number.map(|number| Value::from(format!("{number:032x}")));
    let truth = text.parse::<bool>().ok().map(Value::from);
    let others = [number.map(Value::from), uuid, truth, Some(list)];
    let others = others.into_iter().flatten();
    [Value::from(text)].into_iter().chain(others).collect()
}

/// A history of one attempt with this outcome.
pub(crate) fn history(outcome: &str) -> String {
    format!(
        r#"[{{"generation":0,"attempt":1,"outcome":"{outcome}","error_class":"Bad","error_message":"no"}}]"#
    )
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.split(['\n', ';']).map(str::trim);
    lines.filter(|line| !line.is_empty())
}

/// Reads row changes; see [`Records::add`].
pub(crate) fn rows(text: &str) -> Vec<RowChange> {
    lines(text).map(row).collect()
}

fn row(line: &str) -> RowChange {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (place, sign) = words[2].split_at(1);
    let change = match sign {
        "+" => "i",
        "-" => "o",
        "~" => "e",
        _ => "u",
    };
    let (tx, at): (&str, i64) = (words[0], words[1].parse().expect(line));
    let seq = at * 10 + i64::from(change == "i");
    let lease = if place == "l" { "1" } else { "" };
    let facts = Facts {
        payload: Arc::from(r#"{"key": 70}"#),
        ..with(
            &Facts::default(),
            r#"queue=chaos kind=work priority=3 headers={"a":"b"} group=g"#,
        )
    };
    let row = RowChange {
        facts: (change != "o").then(|| Arc::new(facts)),
        job: JOB,
        max_attempts: 4,
        ..RowChange::default()
    };
    let what = format!("place={place} change={change} lease={lease} worker=9 by=worker-1.1");
    let row = with(
        &row,
        &format!("tx={tx} at={at} committed={at} seq={seq} {what}"),
    );
    with(&row, &words[3..].join(" "))
}

pub(crate) fn handled(at: i64, phase: Phase) -> HandlerEvent {
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

pub(crate) fn line(process: &str, op: u64, at: i64, event: ClientEvent) -> HistoryLine {
    HistoryLine {
        at,
        process: process.to_owned(),
        op,
        event,
    }
}

impl Records {
    /// Adds records, one a line, each with what differs from the usual:
    ///
    /// - `2 10 l+ attempt=1`: a row change with its transaction, its time, and its place with `+` for a row that comes,
    ///   `-` for one that goes, `~` for another content and `*` for another state
    /// - `begin 15`, `done 25 attempt=2`: what a handler did, and when
    /// - `cancel 6 12..13 ids=7 got=-7`: an operation with its number, its time, and perhaps the time of its answer
    pub(crate) fn add(&mut self, text: &str) {
        for line in lines(text) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let phase = serde_json::from_value(Value::from(words[0]));
            match (words[0], phase) {
                (_, Ok(phase)) => {
                    let event = handled(words[1].parse().expect(line), phase);
                    let event = with(&event, &words[2..].join(" "));
                    match phase {
                        Phase::Checkpoint => self.checkpoints.push(event),
                        _ => self.handlers.push(event),
                    }
                }
                (word, _) if word.parse::<i64>().is_ok() => self.trace.push(row(line)),
                _ => self.operation(&words),
            }
        }
    }

    fn operation(&mut self, words: &[&str]) {
        let parts = words.iter().filter_map(|word| word.split_once('='));
        let part = |name: &str| {
            parts
                .clone()
                .find(|(of, _)| *of == name)
                .map(|(_, text)| text)
        };
        let process = part("by").unwrap_or(CLIENT).to_owned();
        let ids = |name: &str| -> Vec<i64> {
            let list = part(name).into_iter().flat_map(|list| list.split(','));
            list.map(|id| id.parse().expect(id)).collect()
        };
        let (keys, of, got) = (ids("keys"), ids("ids"), ids("got"));
        let operation = serde_json::from_value(Value::from(words[0])).expect(words[0]);
        let asked = ClientEvent::Invoked {
            operation,
            keys,
            ids: of,
        };
        let op = words[1].parse().expect("the number of an operation");
        let mut times = words[2].split("..").map(|at| at.parse().expect(at));
        for event in [asked, ClientEvent::Ok { ids: got }] {
            let at = times.next();
            self.history
                .extend(at.map(|at| line(&process, op, at, event)));
        }
    }

    /// Changes some rows of the trace.
    pub(crate) fn set(&mut self, rows: impl IntoIterator<Item = usize>, changes: &str) {
        for at in rows {
            self.trace[at] = with(&self.trace[at], changes);
        }
    }

    /// Changes what the job carries, in its rows from this one on that have a content.
    pub(crate) fn carry(&mut self, from: usize, changes: &str) {
        let rows = from..self.trace.len();
        let carrying = rows.filter(|at| self.trace[*at].facts.is_some());
        let carrying: Vec<usize> = carrying.collect();
        self.set(carrying, changes);
    }
}
