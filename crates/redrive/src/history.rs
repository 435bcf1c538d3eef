//! History: the attempts of a job or letter, as they are stored and as they are told.

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::payload::JsonText;

/// One attempt in the history of a job or letter.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct AttemptRecord {
    /// The generation it belongs to: how often the job had been redriven.
    pub generation: u32,
    /// Its number in the generation, from 1.
    pub attempt: u32,
    /// `failed`, or the reason it killed the job for.
    pub outcome: String,
    /// How long it ran, in milliseconds.
    pub run_ms: Option<u64>,
    /// When it ended, by the database's clock, as ISO 8601.
    pub ended_at: Option<String>,
    /// The class of its error.
    pub error_class: Option<String>,
    /// The message of its error, cut to 1,000 bytes.
    pub error_message: Option<String>,
    /// The worker that ran it.
    pub worker: Option<String>,
    /// The host of that worker.
    pub host: Option<String>,
    /// The version of the program on it.
    pub version: Option<String>,
    /// The process of that worker.
    pub pid: Option<u32>,
}

/// A word of a stored record: one that is absent is that of the record that follows.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(untagged)]
enum Word<T> {
    /// Said, and be it that there is none.
    Said(Option<T>),
    #[default]
    #[serde(skip)]
    AsNext,
}

impl<T: Clone> Word<T> {
    /// What it means, given what the record that follows means; and that for the one before.
    fn meant(self, next: &mut Option<T>) -> Option<T> {
        if let Word::Said(value) = self {
            *next = value;
        }
        next.clone()
    }
}

/// A record as `redrive.remember` stores it.
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

/// A record in any of its shapes: one that leaves all its words to the next, or all but its
/// outcome, is an array.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Shape {
    // First, because a structure can be read from an array too.
    Short(u32, Option<u64>, Option<String>),
    Ended(u32, Option<u64>, Option<String>, Option<String>),
    Spelled(Stored),
}

impl Shape {
    fn spelled(self) -> Stored {
        match self {
            Shape::Spelled(stored) => stored,
            Shape::Short(attempt, run_ms, ended_at) => Stored {
                attempt,
                run_ms,
                ended_at,
                ..Stored::default()
            },
            Shape::Ended(attempt, run_ms, ended_at, outcome) => Stored {
                attempt,
                run_ms,
                ended_at,
                outcome: Word::Said(outcome),
                ..Stored::default()
            },
        }
    }
}

/// Reads a stored history: fills in, from its end, what records left to the ones after them.
pub(crate) fn attempts(history: &JsonText) -> Result<Vec<AttemptRecord>> {
    let stored: Vec<Shape> = serde_json::from_slice(&history.0).map_err(|error| {
        Error::invalid("the stored history of the job cannot be read").caused_by(error)
    })?;
    let mut next = AttemptRecord::default();
    let (mut generation, mut outcome) = (None, None);
    let mut attempts: Vec<AttemptRecord> = stored
        .into_iter()
        .rev()
        .map(Shape::spelled)
        .map(|record| AttemptRecord {
            generation: record.generation.meant(&mut generation).unwrap_or_default(),
            attempt: record.attempt,
            outcome: record.outcome.meant(&mut outcome).unwrap_or_default(),
            run_ms: record.run_ms,
            ended_at: record.ended_at,
            error_class: record.error_class.meant(&mut next.error_class),
            error_message: record.error_message.meant(&mut next.error_message),
            worker: record.worker.meant(&mut next.worker),
            host: record.host.meant(&mut next.host),
            version: record.version.meant(&mut next.version),
            pid: record.pid.meant(&mut next.pid),
        })
        .collect();
    attempts.reverse();
    Ok(attempts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Vec<AttemptRecord> {
        attempts(&JsonText(json.as_bytes().into())).expect("a history")
    }

    #[test]
    fn what_a_record_leaves_out_is_said_by_the_next() {
        let told = read(
            r#"[{"attempt": 1, "host": "web-2"},
                {"attempt": 2, "error_class": null},
                {"attempt": 3, "error_class": "Timeout", "host": "web-1", "pid": 7}]"#,
        );
        let classes: Vec<_> = told.iter().map(|a| a.error_class.as_deref()).collect();
        assert_eq!(classes, [None, None, Some("Timeout")]);
        let hosts: Vec<_> = told.iter().map(|a| a.host.as_deref()).collect();
        assert_eq!(hosts, [Some("web-2"), Some("web-1"), Some("web-1")]);
        assert_eq!(told.iter().map(|a| a.pid).collect::<Vec<_>>(), [Some(7); 3]);
        assert_eq!(told[0].version, None);
    }

    #[test]
    fn a_record_without_words_is_an_array() {
        let told = read(
            r#"[[1, 12, "2026-11-20T10:00:00.123Z"], {"attempt": 2, "host": "web-1"},
                [3, 7, "2026-11-20T10:00:01.000Z", "timeout"],
                {"attempt": 4, "host": "web-2", "outcome": "exhausted"}]"#,
        );
        assert_eq!((told[0].attempt, told[0].run_ms), (1, Some(12)));
        assert_eq!(
            told[0].ended_at.as_deref(),
            Some("2026-11-20T10:00:00.123Z")
        );
        let hosts: Vec<_> = told.iter().map(|a| a.host.as_deref()).collect();
        let outcomes: Vec<_> = told.iter().map(|a| &*a.outcome).collect();
        assert_eq!(outcomes, ["timeout", "timeout", "timeout", "exhausted"]);
        let (one, two) = (Some("web-1"), Some("web-2"));
        assert_eq!(hosts, [one, one, two, two]);
    }

    #[test]
    fn a_history_that_is_none_is_an_error() {
        assert!(attempts(&JsonText(b"{}"[..].into())).is_err());
        assert!(read("[]").is_empty());
    }
}
