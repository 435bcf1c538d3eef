//! The events of a letter between its attempts.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::job::payload::JsonText;

/// An event of a letter, such as a death, a redrive or an edit.
///
/// Newer versions may record events that this version does not know.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LetterEvent {
    /// The time by the database's clock, as ISO 8601.
    pub at: Option<String>,
    /// The event: `died`, `redriven`, `edited`, …
    pub event: String,
    /// Details such as `by`, `reason`, `run`, `version` and `generation`.
    #[serde(flatten)]
    pub about: Map<String, Value>,
}

/// Parses stored events and sorts them by time. A death is stored when its letter opens again,
/// after the redrive that followed it.
pub(crate) fn events(stored: &JsonText) -> Result<Vec<LetterEvent>> {
    let mut events: Vec<LetterEvent> = serde_json::from_slice(&stored.0).map_err(|error| {
        Error::invalid("the stored events of the letter cannot be read").caused_by(error)
    })?;
    // ISO 8601 in one time zone sorts as text.
    events.sort_by(|a, b| a.at.cmp(&b.at));
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_keeps_unknown_fields() {
        let json =
            br#"[{"at": "2025-01-01T00:00:00Z", "event": "painted", "colour": ["red"]}, {}]"#;
        let events = events(&JsonText(json[..].into())).expect("events");
        assert_eq!(events[0], LetterEvent::default());
        assert_eq!(events[1].event, "painted");
        assert_eq!(events[1].about["colour"][0], "red");
    }
}
