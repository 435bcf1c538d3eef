//! The attempts of a job or letter, as stored and as returned.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::db::column::Column;
use crate::error::Result;
use crate::job::payload::JsonText;

/// One attempt in the history of a job or letter.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AttemptRecord {
    /// The generation: how many times the job had been redriven.
    pub generation: u32,
    /// The number of the attempt in its generation, from 1; 0: a failure captured from its source.
    pub attempt: u32,
    /// `failed`, `outage`, `interrupted`, or the cause of death if the attempt ended the job; `captured` for a failure
    /// captured from its source; `unreadable` for a record that this version cannot read.
    pub outcome: String,
    /// The run time, in milliseconds.
    pub run_ms: Option<u64>,
    /// The end by the database's clock, as RFC 3339 in UTC with milliseconds.
    pub ended_at: Option<String>,
    /// The error class.
    pub error_class: Option<String>,
    /// The error message, truncated to 1,000 bytes.
    pub error_message: Option<String>,
    /// The worker.
    pub worker: Option<String>,
    /// The worker's host.
    pub host: Option<String>,
    /// The version of the worker's program.
    pub version: Option<String>,
    /// The worker's process id.
    pub pid: Option<u32>,
}

/// A stored field. An absent field has the value of the record that follows.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(untagged)]
enum Word<T> {
    /// Present, possibly as null.
    Said(Option<T>),
    #[default]
    #[serde(skip)]
    AsNext,
}

impl<T: Clone> Word<T> {
    /// Resolves the field and remembers its value for the record before.
    fn meant(self, next: &mut Option<T>) -> Option<T> {
        if let Word::Said(value) = self {
            *next = value;
        }
        next.clone()
    }
}

/// A record, as `redrive.remember` stores it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Stored {
    generation: Word<u32>,
    attempt: u32,
    outcome: Word<String>,
    run_ms: Option<u64>,
    ended_at: Option<String>,
    error_class: Word<String>,
    error_message: Word<String>,
    worker: Word<String>,
    host: Word<String>,
    version: Word<String>,
    pid: Word<u32>,
}

/// A record in any of its stored shapes. A record that shares its fields with the next, or all
/// but its outcome, is stored as an array.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum EntryShape {
    // First, because serde also reads a struct from an array.
    Short(u32, Option<u64>, Option<String>),
    Ended(u32, Option<u64>, Option<String>, Option<String>),
    Spelled(Stored),
}

impl EntryShape {
    fn spelled(self) -> Stored {
        match self {
            EntryShape::Spelled(stored) => stored,
            EntryShape::Short(attempt, run_ms, ended_at) => Stored {
                attempt,
                run_ms,
                ended_at,
                ..Stored::default()
            },
            EntryShape::Ended(attempt, run_ms, ended_at, outcome) => Stored {
                attempt,
                run_ms,
                ended_at,
                outcome: Word::Said(outcome),
                ..Stored::default()
            },
        }
    }
}

/// Returns whether a record is in one of the stored shapes.
pub(in crate::dlq) fn is_readable(record: &serde_json::Value) -> bool {
    EntryShape::deserialize(record).is_ok()
}

impl Column for Vec<AttemptRecord> {
    type Stored = Option<JsonText>;

    fn read(history: Option<JsonText>) -> Result<Vec<AttemptRecord>> {
        Ok(history.as_ref().map(attempts).unwrap_or_default())
    }
}

/// Parses a stored history, resolving fields from the end. Another program can store anything, such as an import of a
/// file that was changed, and a list must show the other letters.
fn attempts(history: &JsonText) -> Vec<AttemptRecord> {
    let unreadable = || {
        EntryShape::Spelled(Stored {
            outcome: Word::Said(Some("unreadable".to_owned())),
            ..Stored::default()
        })
    };
    let stored = match serde_json::from_slice::<Vec<&RawValue>>(&history.0) {
        Ok(records) => records
            .into_iter()
            .map(|record| serde_json::from_str(record.get()).unwrap_or_else(|_| unreadable()))
            .collect(),
        Err(_) => vec![unreadable()],
    };
    let mut next = AttemptRecord::default();
    let (mut generation, mut outcome) = (None, None);
    let mut attempts: Vec<AttemptRecord> = stored
        .into_iter()
        .rev()
        .map(EntryShape::spelled)
        .map(|record| AttemptRecord {
            generation: record.generation.meant(&mut generation).unwrap_or_default(),
            attempt: record.attempt,
            outcome: record.outcome.meant(&mut outcome).unwrap_or_default(),
            run_ms: record.run_ms,
            ended_at: record.ended_at.map(in_utc),
            error_class: record.error_class.meant(&mut next.error_class),
            error_message: record.error_message.meant(&mut next.error_message),
            worker: record.worker.meant(&mut next.worker),
            host: record.host.meant(&mut next.host),
            version: record.version.meant(&mut next.version),
            pid: record.pid.meant(&mut next.pid),
        })
        .collect();
    attempts.reverse();
    attempts
}

/// Writes a time in one format. A record has the time zone of the session that stored it.
fn in_utc(stored: String) -> String {
    match stored.parse::<Timestamp>() {
        Ok(timestamp) => format!("{timestamp:.3}"),
        Err(_) => stored,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of each attempt.
    fn each<T>(json: &str, field: impl Fn(AttemptRecord) -> T) -> Vec<T> {
        let attempts = attempts(&JsonText(json.as_bytes().into()));
        attempts.into_iter().map(field).collect()
    }

    #[test]
    fn all_times_of_a_history_have_one_format() {
        let ended = each(
            r#"[[1, 12, "2026-11-20T10:00:00.120Z"],
                {"attempt": 2, "ended_at": "2026-11-20T10:00:01.5+00:00"},
                {"attempt": 3, "ended_at": "2026-11-20T12:00:02.123999+02:00"},
                {"attempt": 4, "ended_at": "long ago"}, {"attempt": 5}]"#,
            |attempt| attempt.ended_at.as_deref().unwrap_or("-").to_owned(),
        );
        let seconds = ["00.120", "01.500", "02.123"];
        let written = seconds.map(|seconds| format!("2026-11-20T10:00:{seconds}Z"));
        assert_eq!(ended[..3], written);
        assert_eq!(ended[3..], ["long ago", "-"]);
    }

    #[test]
    fn a_record_takes_missing_fields_from_the_next() {
        let json = r#"[{"attempt": 1, "host": "web-2"},
            {"attempt": 2, "error_class": null},
            {"attempt": 3, "error_class": "Timeout", "host": "web-1", "pid": 7}]"#;
        let class = Some("Timeout".to_owned());
        assert_eq!(each(json, |a| a.error_class), [None, None, class]);
        let hosts = ["web-2", "web-1", "web-1"].map(|host| Some(host.to_owned()));
        assert_eq!(each(json, |a| a.host), hosts);
        assert_eq!(each(json, |a| a.pid), [Some(7); 3]);
        assert_eq!(each(json, |a| a.version)[0], None);
    }

    #[test]
    fn a_record_without_words_is_an_array() {
        let json = r#"[[1, 12, "2026-11-20T10:00:00.123Z"], {"attempt": 2, "host": "web-1"},
            [3, 7, "2026-11-20T10:00:01.000Z", "timeout"],
            {"attempt": 4, "host": "web-2", "outcome": "exhausted"}]"#;
        let facts = each(json, |a| (a.attempt, a.run_ms, a.ended_at));
        let ended = Some("2026-11-20T10:00:00.123Z".to_owned());
        assert_eq!(facts[0], (1, Some(12), ended));
        let outcomes = ["timeout", "timeout", "timeout", "exhausted"];
        assert_eq!(each(json, |a| a.outcome), outcomes);
        let hosts = ["web-1", "web-1", "web-2", "web-2"].map(|host| Some(host.to_owned()));
        assert_eq!(each(json, |a| a.host), hosts);
    }

    #[test]
    fn a_record_that_cannot_be_read_hides_no_other() {
        for (json, outcomes) in [
            ("{}", "unreadable"),
            ("[]", ""),
            (
                r#"[5, {"attempt": 1, "outcome": "failed"}, {"attempt": -1}, [1e9999], null,
                    {"run_ms": 1e999}, {"attempt": 2, "outcome": "timeout"}]"#,
                "unreadable failed unreadable unreadable unreadable unreadable timeout",
            ),
        ] {
            assert_eq!(each(json, |a| a.outcome).join(" "), outcomes);
        }
    }
}
