//! The past of an exported letter, which a capture of its line keeps.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::dlq::filter::moment;
use crate::dlq::letter::Letter;
use crate::dlq::prelude::*;

/// The members: columns of the letter, whose values the database checks, and whether it had captured bytes besides its
/// payload.
const MEMBERS: &str = "state cause seen priority attempts earlier_attempts max_attempts generation crashes deaths \
                       alike failed_redrives enqueued_at died_at worker_id host version pid unique_key failure_key \
                       redacted history events has_raw";
/// The greatest counts, so that neither a sum of two nor the deaths to come exceed a column.
const MAX_COUNT: i32 = 1_000_000_000;
const MAX_SMALL_COUNT: i32 = 30_000;

/// The parts of a letter that a capture of its exported line keeps: its history, events,
/// generation, counts, times, cause, keys and redacted values.
///
/// It is serialized as the member `letter` of an exported line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Map<String, Value>")]
pub struct LetterPast(Map<String, Value>);

/// Leaves out the members of a newer version.
impl From<Map<String, Value>> for LetterPast {
    fn from(mut past: Map<String, Value>) -> LetterPast {
        past.retain(|name, _| MEMBERS.split(' ').any(|member| member == name));
        LetterPast(past)
    }
}

impl LetterPast {
    /// Returns the past of a letter.
    pub fn of(letter: &Letter) -> LetterPast {
        let past = json!({
            "state": letter.state.as_str(),
            "cause": letter.cause.as_str(),
            "seen": letter.seen.min(MAX_COUNT.unsigned_abs().into()),
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
        // An object.
        let mut members: Map<String, Value> = serde_json::from_value(past).unwrap_or_default();
        members.retain(|_, value| !value.is_null());
        LetterPast(members)
    }

    /// Checks what the database would accept, although a later death or redrive would fail.
    ///
    /// # Errors
    /// *Invalid* if a text contains NUL, a count is too high or it is larger than a payload may be.
    pub(crate) fn check(&self) -> Result<()> {
        Json::of("the past of an exported letter", self)?;
        for (name, value) in &self.0 {
            let most = match &**name {
                "crashes" | "alike" | "failed_redrives" => MAX_SMALL_COUNT,
                _ => MAX_COUNT,
            };
            if value.as_f64().is_some_and(|count| count > f64::from(most)) {
                return Err(Error::invalid(format!(
                    "`{name}` of an exported letter is {value}; the limit is {most}"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_past_that_would_stop_a_later_death_is_invalid() {
        for (past, is_possible) in [
            (
                json!({ "redacted": ["/card"], "seen": 1, "newer": 2_000_000_000_u32 }),
                true,
            ),
            (json!({ "seen": 1_000_000_001_u32 }), false),
            (json!({ "alike": 32_767 }), false),
            (json!({ "host": "a\u{0}b" }), false),
            (
                json!({ "history": [{ "error_message": "a\u{0}b" }] }),
                false,
            ),
        ] {
            let read = serde_json::from_value::<LetterPast>(past.clone()).expect("an object");
            assert_eq!(read.check().is_ok(), is_possible, "{past}");
        }
    }
}
