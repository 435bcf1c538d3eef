//! The timeline of a letter: its attempts, deaths and other events over all generations.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use redrive::dlq::runs::RunLetter;
use redrive::dlq::{AttemptRecord, Letter, LetterEvent, LetterState};
use serde_json::Value;

use super::outcome_text;
use crate::time::{short, stored};

/// One line of the timeline.
#[derive(Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) at: String,
    pub(super) text: String,
    moment: Option<Timestamp>,
}

impl Entry {
    fn new(at: SystemTime, text: String) -> Entry {
        let at = Timestamp::try_from(at).map(|at| at.to_string());
        Entry::stored(at.ok().as_deref(), text)
    }

    /// An entry at a stored timestamp, which is shown unchanged if it cannot be parsed.
    fn stored(at: Option<&str>, text: String) -> Entry {
        let moment: Option<Timestamp> = at.and_then(|at| at.parse().ok());
        let at = at.map_or_else(|| "at an unknown time".to_owned(), stored);
        Entry { at, text, moment }
    }
}

/// The timeline of a letter, in order of time. Its redrives have their outcomes in `runs`.
pub(super) fn of(letter: &Letter, runs: &[RunLetter]) -> Vec<Entry> {
    let mut entries = vec![Entry::new(letter.enqueued_at, "enqueued".to_owned())];
    entries.extend(letter.history.iter().map(attempt));
    entries.extend(letter.events.iter().map(|each| event(each, runs)));
    entries.push(Entry::new(letter.died_at, last_death(letter)));
    entries.extend(state(letter).map(|text| Entry::new(letter.changed_at, text)));
    // An entry without a timestamp stays after the entry before it.
    let mut known = None;
    for entry in &mut entries {
        entry.moment = entry.moment.or(known);
        known = entry.moment;
    }
    entries.sort_by_key(|entry| entry.moment);
    entries
}

pub(super) fn attempt(record: &AttemptRecord) -> Entry {
    let generation = match record.generation {
        0 => String::new(),
        generation => format!(" of generation {generation}"),
    };
    let run_time = record
        .run_ms
        .map(|ms| format!(" after {}", short(Duration::from_millis(ms))));
    let what = match &*record.outcome {
        // The source of the failure made the attempt.
        "captured" => format!("captured{generation}"),
        outcome => format!(
            "attempt {}{generation}: {outcome}{}",
            record.attempt,
            run_time.unwrap_or_default()
        ),
    };
    let error = [&record.error_class, &record.error_message];
    let parts: Vec<&str> = std::iter::once(&what)
        .chain(error.into_iter().flatten())
        .map(String::as_str)
        .filter(|text| !text.is_empty())
        .collect();
    Entry::stored(record.ended_at.as_deref(), parts.join(": "))
}

/// An event: its name, operator, other members and reason. The event of a run has its outcome.
fn event(event: &LetterEvent, runs: &[RunLetter]) -> Entry {
    let mut about = event.about.clone();
    about.retain(|_, value| !value.is_null());
    let mut take = |key: &str| about.remove(key).as_ref().map(plain);
    let mut text = match &*event.event {
        "died" => death(&mut take),
        "" => "unknown event".to_owned(),
        other => other.to_owned(),
    };
    let (by, reason) = (take("by"), take("reason"));
    if let Some(by) = by {
        text = format!("{text} by {by}");
    }
    let more = about.iter();
    let more = more.map(|(key, value)| format!("{key} {}", plain(value)));
    let more: Vec<String> = more.collect();
    if !more.is_empty() {
        text = format!("{text} ({})", more.join(", "));
    }
    if let Some(reason) = reason {
        text = format!("{text}: {reason}");
    }
    let run = about.get("run").and_then(Value::as_i64);
    if let Some(sent) = runs.iter().find(|sent| Some(sent.run.get()) == run) {
        text = format!("{text} -> {}", outcome_text(sent.outcome, sent.skip));
    }
    Entry::stored(event.at.as_deref(), text)
}

/// The last death, which is recorded in the letter itself.
fn last_death(letter: &Letter) -> String {
    death(|key| {
        Some(match key {
            "generation" => letter.generation.to_string(),
            "cause" => letter.cause.to_string(),
            "error_class" => letter.error_class.clone(),
            _ => letter.group.to_string(),
        })
    })
}

/// A death, of which `word` tells the generation, the cause, the error class and the group.
fn death(mut word: impl FnMut(&str) -> Option<String>) -> String {
    let generation = match word("generation").as_deref() {
        None | Some("0") => String::new(),
        Some(generation) => format!(" in generation {generation}"),
    };
    let group = word("group").map(|group| format!("group {group}"));
    let what = [word("cause"), word("error_class"), group];
    let what: Vec<String> = what
        .into_iter()
        .flatten()
        .filter(|text| !text.is_empty())
        .collect();
    format!("died{generation}: {}", what.join(", "))
}

/// The state after the last death. A redrive and a discard are events.
fn state(letter: &Letter) -> Option<String> {
    match letter.state {
        LetterState::Quarantined if letter.alike >= 3 => Some(format!(
            "quarantined: died of the same error {} times in a row after a redrive",
            letter.alike
        )),
        LetterState::Quarantined => Some(format!(
            "quarantined: died {} times after a redrive",
            letter.failed_redrives
        )),
        LetterState::Recovered => Some("recovered".to_owned()),
        LetterState::Open | LetterState::Redriving | LetterState::Discarded | _ => None,
    }
}

/// A JSON value as text; strings without quotes.
fn plain(value: &Value) -> String {
    let text = value.as_str().map(str::to_owned);
    text.unwrap_or_else(|| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn an_event(json: Value) -> String {
        let recorded: LetterEvent = serde_json::from_value(json).expect("an event");
        event(&recorded, &[]).text
    }

    #[test]
    fn events_are_shown_as_text_even_if_unknown() {
        use serde_json::json;
        for (json, text) in [
            (
                json!({"event": "died", "generation": 1, "cause": "exhausted", "error_class": "E", "group": 12}),
                "died in generation 1: exhausted, E, group 12",
            ),
            (
                json!({"event": "redriven", "by": "maria@ops", "reason": "gateway fixed", "run": 3, "policy": null}),
                "redriven by maria@ops (run 3): gateway fixed",
            ),
            (
                json!({"event": "edited", "version": 2, "by": "a"}),
                "edited by a (version 2)",
            ),
            (
                json!({"event": "painted", "color": ["red"]}),
                "painted (color [\"red\"])",
            ),
            (json!({}), "unknown event"),
        ] {
            assert_eq!(an_event(json), text);
        }
    }

    #[test]
    fn an_unreadable_timestamp_is_shown_unchanged() {
        assert_eq!(Entry::stored(Some("soon"), String::new()).at, "soon");
        assert_eq!(Entry::stored(None, String::new()).at, "at an unknown time");
    }
}
