//! The past of an exported letter, which a capture of its line keeps.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::dlq::filter::moment;
use crate::dlq::letter::Letter;

/// The parts of a letter that a capture of its exported line keeps: its history, events,
/// generation, counts, times, cause, keys and redacted values.
///
/// It is serialized as the member `letter` of an exported line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LetterPast(Map<String, Value>);

impl LetterPast {
    /// Returns the past of a letter.
    pub fn of(letter: &Letter) -> LetterPast {
        let past = json!({
            "state": letter.state.as_str(),
            "cause": letter.cause.as_str(),
            "seen": letter.seen,
            "priority": letter.priority,
            "attempts": letter.attempts,
            "earlier_attempts": letter.earlier_attempts,
            "max_attempts": letter.max_attempts,
            "generation": letter.generation,
            "crashes": letter.crashes,
            "deaths": letter.deaths,
            "alike": letter.alike,
            "failed_redrives": letter.failed_redrives,
            "enqueued_at": moment::written(letter.enqueued_at),
            "died_at": moment::written(letter.died_at),
            "worker_id": letter.worker,
            "host": letter.host,
            "version": letter.version,
            "pid": letter.pid,
            "unique_key": letter.unique_key,
            "failure_key": letter.failure_key,
            "redacted": (!letter.redacted.is_empty()).then_some(&letter.redacted),
            "history": letter.history,
            "events": letter.events,
            "has_raw": letter.raw.is_some(),
        });
        let Value::Object(mut members) = past else {
            return LetterPast(Map::new());
        };
        members.retain(|_, value| !value.is_null());
        LetterPast(members)
    }
}
