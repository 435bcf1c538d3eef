//! The attempts of a job or letter, as stored and as returned.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::db::column::Column;
use crate::error::Result;
use crate::job::payload::Json;

/// One attempt in the history of a job or letter.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
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
    /// The end by the database's clock, as ISO 8601.
    pub ended_at: Option<String>,
    /// The error class.
    pub error_class: Option<String>,
    /// The error message, truncated to 1,000 characters.
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

impl Column for Vec<AttemptRecord> {
    type Stored = Option<Json>;

    fn read(history: Option<Json>) -> Result<Vec<AttemptRecord>> {
        let history = history.as_ref().map(Json::as_str);
        Ok(history.map(attempts).unwrap_or_default())
    }
}

fn attempts(history: &str) -> Vec<AttemptRecord> {
    records(history, |outcome| AttemptRecord {
        outcome,
        ..AttemptRecord::default()
    })
}

/// Parses stored records, each alone; `unreadable` makes one of a word. Another program can store anything, such as an
/// import of a file that was changed, and a list must show the other letters.
pub(super) fn records<T: DeserializeOwned>(
    stored: &str,
    unreadable: impl Fn(String) -> T,
) -> Vec<T> {
    let records: Vec<&RawValue> =
        serde_json::from_str(stored).unwrap_or_else(|_| vec![RawValue::NULL]);
    let read = |record: &RawValue| {
        let read = serde_json::from_str(record.get());
        read.unwrap_or_else(|_| unreadable("unreadable".to_owned()))
    };
    records.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let read = attempts(json).into_iter().map(|attempt| attempt.outcome);
            assert_eq!(read.collect::<Vec<_>>().join(" "), outcomes);
        }
    }
}
