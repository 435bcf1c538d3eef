//! What a job carries from place to place, as the trace records it.

use std::sync::Arc;

use serde_json::Value;

use crate::db_trace::traced;

/// The header that has the checkpoint.
const CHECKPOINT: &str = "redrive-checkpoint";
/// The header of a job that holds its unique key until it starts.
const UNTIL_STARTED: &str = "redrive-unique-until";

traced! {
    /// The content of a job or letter.
    #[derive(PartialEq, Eq)]
    Facts {
        queue: Arc<str>,
        kind: Arc<str>,
        priority: i32,
        /// The text of the payload.
        payload: Arc<str>,
        /// When the job was first enqueued.
        enqueued: i64,
        headers: Option<Arc<str>>,
        group_key: Option<Arc<str>>,
        unique_key: Option<Arc<str>>,
    }
}

/// A part of the content that no move may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    Queue,
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

    /// Whether it holds its unique key only until it starts.
    pub(crate) fn frees_its_key(&self) -> bool {
        let headers = self.headers.as_deref().unwrap_or_default();
        self.unique_key.is_some() && headers.contains(UNTIL_STARTED)
    }

    /// Returns the key that the enqueuer put into the payload.
    pub(crate) fn key(&self) -> Option<i64> {
        self.of_payload("key").as_i64()
    }

    /// Returns the number of follow-ups that the payload asks for.
    pub(crate) fn follow_ups(&self) -> i64 {
        self.of_payload("follow_ups").as_i64().unwrap_or_default()
    }

    /// Whether its handler aborts the process.
    pub(crate) fn aborts(&self) -> bool {
        self.of_payload("plan") == "abort"
    }

    fn of_payload(&self, field: &str) -> Value {
        let payload: Value = serde_json::from_str(&self.payload).unwrap_or_default();
        payload.get(field).cloned().unwrap_or_default()
    }

    /// Returns what differs.
    pub(crate) fn differences(&self, other: &Facts) -> Vec<Fact> {
        let differs = [
            (Fact::Queue, self.queue != other.queue),
            (Fact::Kind, self.kind != other.kind),
            (Fact::Priority, self.priority != other.priority),
            (Fact::Payload, !is_same_json(&self.payload, &other.payload)),
            (Fact::FirstEnqueue, self.enqueued != other.enqueued),
            (
                Fact::Headers,
                !is_same(self.headers.as_deref(), other.headers.as_deref()),
            ),
            (Fact::GroupKey, self.group_key != other.group_key),
            (Fact::UniqueKey, self.unique_key != other.unique_key),
        ];
        let differs = differs.into_iter().filter(|(_, differs)| *differs);
        differs.map(|(fact, _)| fact).collect()
    }
}

/// Whether both are missing, or the same JSON.
fn is_same(one: Option<&str>, other: Option<&str>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => is_same_json(one, other),
        (one, other) => one == other,
    }
}

/// Whether two texts are the same JSON. An edit writes the payload anew.
fn is_same_json(one: &str, other: &str) -> bool {
    let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
    one == other || parse(one).is_some_and(|value| parse(other) == Some(value))
}
