//! The timeline of a letter: one line for everything that happened to it, over all generations.

use std::time::{Duration, SystemTime};

use redrive::{AttemptRecord, Letter, LetterEvent, LetterState};
use serde_json::Value;

use crate::duration::{rfc3339, short};

/// Something that happened.
#[derive(Debug, PartialEq)]
pub(super) struct Entry {
    /// When, for people.
    pub(super) at: String,
    /// What.
    pub(super) told: String,
    moment: Option<jiff::Timestamp>,
}

impl Entry {
    fn new(at: SystemTime, told: String) -> Entry {
        Entry {
            at: rfc3339(at),
            told,
            moment: jiff::Timestamp::try_from(at).ok(),
        }
    }

    /// Something at a stored moment, which is shown as it is when it cannot be read.
    fn stored(at: Option<&str>, told: String) -> Entry {
        let moment: Option<jiff::Timestamp> = at.and_then(|at| at.parse().ok());
        let at = match (moment, at) {
            (Some(moment), _) => format!("{moment:.3}"),
            (None, Some(text)) => text.to_owned(),
            (None, None) => "at an unknown time".to_owned(),
        };
        Entry { at, told, moment }
    }
}

/// The story of a letter in the order of time.
pub(super) fn of(letter: &Letter) -> Vec<Entry> {
    let mut entries = vec![Entry::new(letter.enqueued_at, "enqueued".to_owned())];
    entries.extend(letter.history.iter().map(attempt));
    entries.extend(letter.events.iter().map(event));
    entries.push(Entry::new(letter.died_at, last_death(letter)));
    entries.extend(state(letter).map(|told| Entry::new(letter.changed_at, told)));
    // What has no time stays behind what it was told after; at the same time, so does the rest.
    let mut known = None;
    for entry in &mut entries {
        entry.moment = entry.moment.or(known);
        known = entry.moment;
    }
    entries.sort_by_key(|entry| entry.moment);
    entries
}

/// An attempt.
pub(super) fn attempt(record: &AttemptRecord) -> Entry {
    let generation = match record.generation {
        0 => String::new(),
        generation => format!(" of generation {generation}"),
    };
    let run_time = record
        .run_ms
        .map(|ms| format!(" after {}", short(Duration::from_millis(ms))));
    let what = format!(
        "attempt {}{generation}: {}{}",
        record.attempt,
        record.outcome,
        run_time.unwrap_or_default()
    );
    let why = [&record.error_class, &record.error_message];
    let told: Vec<&str> = std::iter::once(&what)
        .chain(why.into_iter().flatten())
        .map(String::as_str)
        .filter(|text| !text.is_empty())
        .collect();
    Entry::stored(record.ended_at.as_deref(), told.join(": "))
}

/// An event, whatever it is: what it is, by whom, why, and what else there is to know.
fn event(event: &LetterEvent) -> Entry {
    let about = &event.about;
    let word = |key: &str| about.get(key).map(plain);
    let mut told = match &*event.event {
        "died" => death(
            word("generation").as_deref(),
            word("reason").as_deref(),
            word("error_class").as_deref(),
            word("group").as_deref(),
        ),
        "" => "something".to_owned(),
        other => other.to_owned(),
    };
    if let Some(by) = word("by") {
        told = format!("{told} by {by}");
    }
    let said: &[&str] = match &*event.event {
        "died" => &["by", "why", "generation", "reason", "error_class", "group"],
        _ => &["by", "why"],
    };
    let more: Vec<String> = about
        .iter()
        .filter(|(key, value)| !said.contains(&key.as_str()) && !value.is_null())
        .map(|(key, value)| format!("{key} {}", plain(value)))
        .collect();
    if !more.is_empty() {
        told = format!("{told} ({})", more.join(", "));
    }
    if let Some(why) = word("why") {
        told = format!("{told}: {why}");
    }
    Entry::stored(event.at.as_deref(), told)
}

/// The death that the letter itself tells of.
fn last_death(letter: &Letter) -> String {
    death(
        Some(&letter.generation.to_string()),
        Some(letter.reason.as_str()),
        Some(&letter.error_class),
        Some(&letter.group.to_string()),
    )
}

fn death(
    generation: Option<&str>,
    reason: Option<&str>,
    class: Option<&str>,
    group: Option<&str>,
) -> String {
    let generation = match generation {
        None | Some("0") => String::new(),
        Some(generation) => format!(" in generation {generation}"),
    };
    let group = group.map(|group| format!("group {group}"));
    let what: Vec<&str> = [reason, class, group.as_deref()]
        .into_iter()
        .flatten()
        .filter(|text| !text.is_empty())
        .collect();
    format!("died{generation}: {}", what.join(", "))
}

/// What the letter became after its last death, unless an event tells it.
fn state(letter: &Letter) -> Option<String> {
    let is_told = |word: &str| {
        letter
            .events
            .last()
            .is_some_and(|event| event.event == word)
    };
    match letter.state {
        LetterState::Open => None,
        LetterState::Redriving if is_told("redriven") || is_told("forced") => None,
        LetterState::Discarded if is_told("discarded") => None,
        LetterState::Discarded => Some(match &letter.discard_reason {
            Some(why) => format!("discarded: {why}"),
            None => "discarded".to_owned(),
        }),
        LetterState::Quarantined => Some(format!(
            "quarantined: it died alike {} times in a row after a redrive",
            letter.alike
        )),
        LetterState::Redriving => Some("redriven".to_owned()),
        other @ (LetterState::Recovered | _) => Some(other.to_string()),
    }
}

/// A JSON value for people: text without its quotes.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::Array(_)
        | Value::Object(_)) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn an_event(json: Value) -> String {
        let Value::Object(mut about) = json else {
            panic!("an object")
        };
        let mut told = LetterEvent::default();
        told.event = about
            .remove("event")
            .and_then(|word| word.as_str().map(str::to_owned))
            .unwrap_or_default();
        told.about = about;
        event(&told).told
    }

    #[test]
    fn events_are_told_in_words_and_unknown_ones_too() {
        use serde_json::json;
        for (json, told) in [
            (
                json!({"event": "died", "generation": 1, "reason": "exhausted", "error_class": "E", "group": 12}),
                "died in generation 1: exhausted, E, group 12",
            ),
            (
                json!({"event": "redriven", "by": "maria@ops", "why": "it is fixed", "run": 3, "policy": null}),
                "redriven by maria@ops (run 3): it is fixed",
            ),
            (
                json!({"event": "edited", "version": 2, "by": "a"}),
                "edited by a (version 2)",
            ),
            (
                json!({"event": "painted", "colour": ["red"]}),
                "painted (colour [\"red\"])",
            ),
            (json!({}), "something"),
        ] {
            assert_eq!(an_event(json), told);
        }
    }

    #[test]
    fn a_moment_that_cannot_be_read_is_shown_as_it_is() {
        assert_eq!(Entry::stored(Some("soon"), String::new()).at, "soon");
        assert_eq!(Entry::stored(None, String::new()).at, "at an unknown time");
    }
}
