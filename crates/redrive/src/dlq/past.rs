//! The past of an exported letter, which a capture of its line keeps.

use serde::{Deserialize, Serialize};

use crate::dlq::event::LetterEvent;
use crate::dlq::filter::moment;
use crate::dlq::history::AttemptRecord;
use crate::dlq::letter::Letter;
use crate::dlq::prelude::*;
use crate::job::new_job::{MAX_ATTEMPTS, MAX_UNIQUE_KEY_BYTES, check_key, check_priority};

/// The longest key of a failure group, in bytes.
const MAX_FAILURE_KEY_BYTES: usize = 1024;
/// The greatest counts, so that neither a sum of two nor the deaths to come exceed a column.
const MAX_COUNT: u32 = 1_000_000_000;
const MAX_SMALL_COUNT: u32 = 30_000;

/// The parts of a letter that a capture of its exported line keeps: its history, events,
/// generation, counts, times, cause, keys and redacted values.
///
/// It is serialized as the member `letter` of an exported line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LetterPast {
    state: String,
    cause: String,
    seen: u32,
    priority: i16,
    attempts: u32,
    earlier_attempts: u32,
    max_attempts: u32,
    generation: u32,
    crashes: u32,
    deaths: u32,
    alike: u32,
    failed_redrives: u32,
    enqueued_at: String,
    died_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    worker_id: Option<uuid::Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unique_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure_key: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    redacted: Vec<String>,
    history: Vec<AttemptRecord>,
    events: Vec<LetterEvent>,
    /// Whether the letter had captured bytes besides its payload.
    has_raw: bool,
}

impl LetterPast {
    /// Returns the past of a letter.
    pub fn of(letter: &Letter) -> LetterPast {
        LetterPast {
            state: letter.state.as_str().to_owned(),
            cause: letter.cause.as_str().to_owned(),
            seen: u32::try_from(letter.seen).map_or(MAX_COUNT, |seen| seen.min(MAX_COUNT)),
            priority: letter.priority,
            attempts: letter.attempts,
            earlier_attempts: letter.earlier_attempts,
            max_attempts: letter.max_attempts,
            generation: letter.generation,
            crashes: letter.crashes,
            deaths: letter.deaths,
            alike: letter.alike,
            failed_redrives: letter.failed_redrives,
            enqueued_at: moment::written(letter.enqueued_at),
            died_at: moment::written(letter.died_at),
            worker_id: letter.worker,
            host: letter.host.clone(),
            version: letter.version.clone(),
            pid: letter.pid,
            unique_key: letter.unique_key.clone(),
            failure_key: letter.failure_key.clone(),
            redacted: letter.redacted.clone(),
            history: letter.history.clone(),
            events: letter.events.clone(),
            has_raw: letter.raw.is_some(),
        }
    }

    /// Checks what the schema would reject.
    ///
    /// # Errors
    /// *Invalid* if a value is unknown or out of range.
    pub(crate) fn check(&self) -> Result<()> {
        self.state.parse::<LetterState>()?;
        self.cause.parse::<DeathCause>()?;
        check_priority(self.priority)?;
        for (name, value, least, most) in [
            ("seen", self.seen, 1, MAX_COUNT),
            ("attempts", self.attempts, 0, MAX_COUNT),
            ("earlier_attempts", self.earlier_attempts, 0, MAX_COUNT),
            ("max_attempts", self.max_attempts, 1, MAX_ATTEMPTS),
            ("generation", self.generation, 0, MAX_COUNT),
            ("deaths", self.deaths, 1, MAX_COUNT),
            ("pid", self.pid.unwrap_or(0), 0, i32::MAX.unsigned_abs()),
            ("crashes", self.crashes, 0, MAX_SMALL_COUNT),
            ("alike", self.alike, 0, MAX_SMALL_COUNT),
            ("failed_redrives", self.failed_redrives, 0, MAX_SMALL_COUNT),
        ] {
            if !(least..=most).contains(&value) {
                return Err(Error::invalid(format!(
                    "`{name}` of an exported letter is {value}; it must be {least} to {most}"
                )));
            }
        }
        // Some of its texts go into jsonb.
        Json::of("the past of an exported letter", self)?;
        for (name, at) in [
            ("enqueued_at", &self.enqueued_at),
            ("died_at", &self.died_at),
        ] {
            if moment::moment(at).is_none() {
                return Err(Error::invalid(format!(
                    "`{name}` of an exported letter is not a timestamp"
                )));
            }
        }
        for (name, key, most) in [
            ("unique_key", &self.unique_key, MAX_UNIQUE_KEY_BYTES),
            ("failure_key", &self.failure_key, MAX_FAILURE_KEY_BYTES),
        ] {
            if let Some(key) = key {
                check_key(&format!("{name} of an exported letter"), key, most)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn is_possible(change: &Value) -> bool {
        let mut line = json!({
            "state": "open", "cause": "rejected", "seen": 1, "priority": 0, "attempts": 1,
            "earlier_attempts": 0, "max_attempts": 5, "generation": 2, "crashes": 0, "deaths": 3,
            "alike": 1, "failed_redrives": 2, "enqueued_at": "2026-11-20T10:00:00Z",
            "died_at": "2026-11-20T11:00:00Z", "history": [], "events": [], "has_raw": false,
        });
        for (key, value) in change.as_object().expect("an object") {
            line[key] = value.clone();
        }
        serde_json::from_value(line).is_ok_and(|past: LetterPast| past.check().is_ok())
    }

    #[test]
    fn a_past_that_the_schema_would_reject_is_invalid() {
        let newer = json!({ "redacted": ["/card"], "host": "web-1", "newer": 1 });
        assert!(is_possible(&newer));
        for change in [
            json!({ "state": "lost" }),
            json!({ "cause": "boredom" }),
            json!({ "priority": 1001 }),
            json!({ "seen": 1_000_000_001_u32 }),
            json!({ "max_attempts": 0 }),
            json!({ "max_attempts": 1001 }),
            json!({ "generation": 2_147_483_646_u32 }),
            json!({ "earlier_attempts": 2_147_483_647_u32 }),
            json!({ "alike": 32_767 }),
            json!({ "crashes": 32_767 }),
            json!({ "deaths": 0 }),
            json!({ "died_at": "yesterday" }),
            json!({ "history": [5] }),
            json!({ "events": [{ "at": 5 }] }),
            json!({ "unique_key": "" }),
            json!({ "host": "a\u{0}b" }),
            json!({ "history": [{ "attempt": 1, "error_message": "a\u{0}b" }] }),
            json!({ "failure_key": "x".repeat(1025) }),
        ] {
            assert!(!is_possible(&change), "{change}");
        }
    }
}
