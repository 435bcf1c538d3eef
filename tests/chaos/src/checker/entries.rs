//! The history of a job, entry by entry, read without the library.

use serde_json::Value;

/// How many entries a job or letter keeps.
const MOST: usize = 20;
/// How many of them are the oldest ones.
const OLDEST: usize = 5;

/// An attempt in a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) generation: i64,
    pub(crate) attempt: i64,
    pub(crate) outcome: String,
    pub(crate) class: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) ended_at: Option<String>,
}

/// Returns the entries of a stored history. `last` follows them: an entry omits the values that it
/// shares with the next one. `None`: the text is no history.
pub(crate) fn entries(history: Option<&str>, last: Option<&Entry>) -> Option<Vec<Entry>> {
    let Some(history) = history else {
        return Some(Vec::new());
    };
    let stored: Vec<Value> = serde_json::from_str(history).ok()?;
    let mut next = last.cloned().unwrap_or_default();
    let mut entries = Vec::with_capacity(stored.len());
    for value in stored.iter().rev() {
        let get = |key: &str, place: usize| match value {
            Value::Array(values) => values.get(place),
            _ => value.get(key),
        };
        // No place in the short form, so that the next entry's value counts.
        let (no_place, text) = (usize::MAX, |value: &Value| {
            value.as_str().map(str::to_owned)
        });
        if let Some(generation) = get("generation", no_place) {
            next.generation = generation.as_i64()?;
        }
        if let Some(outcome) = get("outcome", 3) {
            next.outcome = text(outcome)?;
        }
        if let Some(class) = get("error_class", no_place) {
            next.class = text(class);
        }
        if let Some(message) = get("error_message", no_place) {
            next.message = text(message);
        }
        next.attempt = get("attempt", 0)?.as_i64()?;
        next.ended_at = get("ended_at", 2).and_then(Value::as_str).map(milliseconds);
        entries.push(next.clone());
    }
    entries.reverse();
    Some(entries)
}

/// Returns a time in UTC up to its milliseconds. An entry keeps no zeros at the end.
fn milliseconds(time: &str) -> String {
    let time = time.trim_end_matches('Z').trim_end_matches("+00:00");
    let (second, fraction) = time.split_once('.').unwrap_or((time, ""));
    format!("{second}.{fraction:0<3.3}")
}

/// Returns these entries, without those from the middle that a history of the maximum length drops.
pub(crate) fn cut(mut entries: Vec<Entry>) -> Vec<Entry> {
    while entries.len() > MOST {
        entries.remove(OLDEST);
    }
    entries
}
