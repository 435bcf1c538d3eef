//! Events: what happened to a letter between its attempts.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::payload::JsonText;

/// Something that happened to a letter: it died, was redriven, edited, forced.
///
/// Whatever acts on a letter adds to its events; there may be kinds of them that this version
/// does not know.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LetterEvent {
    /// When, by the database's clock, as ISO 8601.
    pub at: Option<String>,
    /// What: `died`, `redriven`, `edited`, …
    pub event: String,
    /// What else there is to know: `by`, `why`, `run`, `version`, `generation`, `reason`, …
    #[serde(flatten)]
    pub about: Map<String, Value>,
}

/// Reads stored events, in the order in which they happened: a death is stored when its letter
/// opens again, so after the redrive that followed it.
pub(crate) fn events(stored: &JsonText) -> Result<Vec<LetterEvent>> {
    let mut events: Vec<LetterEvent> = serde_json::from_slice(&stored.0).map_err(|error| {
        Error::invalid("the stored events of the letter cannot be read").caused_by(error)
    })?;
    // ISO 8601 of one time zone: the order of the text is that of time.
    events.sort_by(|a, b| a.at.cmp(&b.at));
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_keeps_what_nobody_knows_yet() {
        let json =
            br#"[{"at": "2025-01-01T00:00:00Z", "event": "painted", "colour": ["red"]}, {}]"#;
        let events = events(&JsonText(json[..].into())).expect("events");
        assert_eq!(events[0], LetterEvent::default());
        assert_eq!(events[1].event, "painted");
        assert_eq!(events[1].about["colour"][0], "red");
    }
}
