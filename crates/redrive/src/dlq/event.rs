//! The events of a letter between its attempts.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::db::column::Column;
use crate::dlq::history::records;
use crate::error::Result;
use crate::job::payload::Json;

/// An event of a letter, such as a death, a redrive or an edit.
///
/// Newer versions may record events that this version does not know.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LetterEvent {
    /// The time by the database's clock, as ISO 8601.
    pub at: Option<String>,
    /// The event: `died`, `redriven`, `edited`, …; `unreadable` for one that this version cannot read.
    pub event: String,
    /// Details such as `by`, `reason`, `run`, `version` and `generation`.
    #[serde(flatten)]
    pub about: Map<String, Value>,
}

impl Column for Vec<LetterEvent> {
    type Stored = Json;

    fn read(stored: Json) -> Result<Vec<LetterEvent>> {
        Ok(events(stored.as_str()))
    }
}

/// Parses stored events and sorts them by time. A death is stored when its letter opens again,
/// after the redrive that followed it.
fn events(stored: &str) -> Vec<LetterEvent> {
    let mut events = records(stored, |event| LetterEvent {
        event,
        ..LetterEvent::default()
    });
    // Each session writes its own time zone.
    events.sort_by_key(|event: &LetterEvent| event.at.as_deref()?.parse::<Timestamp>().ok());
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_in_the_order_of_time_and_one_that_cannot_be_read_hides_no_other() {
        let json = r#"[{"at": "2025-01-01T09:30:00.25-05:00", "event": "painted", "colour": ["red"]},
            {"at": "2025-01-01T19:00:00+05:30", "event": "died"},
            5, {"at": 7, "event": "x"}, {"event": "y", "n": 1e999}, {}]"#;
        let events = events(json);
        let names = events.iter().map(|event| &*event.event);
        let unreadable = ["unreadable"; 3].into_iter();
        assert!(
            names.eq(unreadable.chain(["", "died", "painted"])),
            "{events:?}"
        );
        assert_eq!(events[3], LetterEvent::default());
        assert_eq!(events[5].about["colour"][0], "red", "of a newer version");
    }
}
