//! What a job carries from place to place, as the trace records it.

use std::sync::Arc;

use serde_json::Value;

/// The header that has the checkpoint.
const CHECKPOINT: &str = "redrive-checkpoint";

/// The content of a job or letter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) kind: Arc<str>,
    pub(crate) priority: i32,
    /// The text of the payload: of a job as it was stored, of a letter as `jsonb` writes it.
    pub(crate) payload: Arc<str>,
    /// When the job was first enqueued.
    pub(crate) enqueued: i64,
    pub(crate) headers: Option<Arc<str>>,
    pub(crate) group_key: Option<Arc<str>>,
    pub(crate) unique_key: Option<Arc<str>>,
    /// The JSON array of the history.
    pub(crate) history: Option<Arc<str>>,
    /// The error of a letter's last attempt. `None`: a job, or a letter of a job that did not run.
    pub(crate) error: Option<Arc<str>>,
    /// When the letter's job died, in UTC.
    pub(crate) died_at: Option<Arc<str>>,
    /// Where a captured letter comes from.
    pub(crate) position: Option<Arc<str>>,
}

/// A part of the content that no move may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    Kind,
    Priority,
    Payload,
    FirstEnqueue,
    Headers,
    GroupKey,
    UniqueKey,
}

impl Facts {
    /// Returns the checkpoint in the headers.
    pub(crate) fn checkpoint(&self) -> Option<u64> {
        let headers: Value = serde_json::from_str(self.headers.as_deref()?).ok()?;
        headers.get(CHECKPOINT)?.as_str()?.parse().ok()
    }

    /// Returns the number of follow-ups that the payload asks for.
    pub(crate) fn follow_ups(&self) -> i64 {
        let payload = serde_json::from_str::<Value>(&self.payload).unwrap_or_default();
        payload
            .get("follow_ups")
            .and_then(Value::as_i64)
            .unwrap_or_default()
    }

    /// Returns what differs, apart from the history.
    pub(crate) fn differences(&self, other: &Facts) -> Vec<Fact> {
        let differs = [
            (Fact::Kind, self.kind != other.kind),
            (Fact::Priority, self.priority != other.priority),
            (Fact::Payload, !is_same_json(&self.payload, &other.payload)),
            (Fact::FirstEnqueue, self.enqueued != other.enqueued),
            (Fact::Headers, self.headers != other.headers),
            (Fact::GroupKey, self.group_key != other.group_key),
            (Fact::UniqueKey, self.unique_key != other.unique_key),
        ];
        let differs = differs.into_iter().filter(|(_, differs)| *differs);
        differs.map(|(fact, _)| fact).collect()
    }
}

/// Whether two texts are the same JSON. A letter has the payload as `jsonb` writes it.
fn is_same_json(one: &str, other: &str) -> bool {
    let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
    one == other || parse(one).is_some_and(|value| parse(other) == Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_differ_in_content_but_not_in_the_spelling_of_a_payload() {
        let facts = |payload: &str| Facts {
            payload: Arc::from(payload),
            ..Facts::default()
        };
        let job = facts(r#"{"b":1,"a":"x"}"#);
        assert_eq!(job.differences(&facts(r#"{"a": "x", "b": 1}"#)), []);
        assert_eq!(
            job.differences(&facts(r#"{"a": "y", "b": 1}"#)),
            [Fact::Payload]
        );
        assert_eq!(facts("{").differences(&facts("[")), [Fact::Payload]);
        let other = Facts {
            priority: 1,
            enqueued: 2,
            headers: Some(Arc::from("{}")),
            ..job.clone()
        };
        let found = [Fact::Priority, Fact::FirstEnqueue, Fact::Headers];
        assert_eq!(job.differences(&other), found);
    }
}
