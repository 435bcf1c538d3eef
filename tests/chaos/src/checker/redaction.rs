//! The effects of the redaction rule on a job that dies. Pure, and without the library.

use std::sync::Arc;

use serde_json::Value;

use crate::checker::entries::Entry;
use crate::facts::Facts;

/// The replacement of a value.
pub(super) const REDACTED: &str = "[redacted]";
/// How each secret begins; digits follow.
const SECRET: &str = "secret-";

/// Returns what a job carries after its death.
pub(super) fn of_facts(facts: &Facts) -> Facts {
    let payload = serde_json::from_str::<Value>(&facts.payload).ok();
    let payload = payload.and_then(|mut payload| {
        let secret = payload.get_mut("secret")?;
        *secret = Value::from(REDACTED);
        Some(Arc::from(payload.to_string()))
    });
    Facts {
        payload: payload.unwrap_or_else(|| Arc::clone(&facts.payload)),
        ..facts.clone()
    }
}

/// Returns an entry of a history after the death.
pub(super) fn of_entry(entry: Entry) -> Entry {
    Entry {
        message: entry.message.as_deref().map(of_text),
        ..entry
    }
}

/// Returns a text without its secrets.
pub(super) fn of_text(text: &str) -> String {
    let mut parts = text.split(SECRET);
    let mut redacted = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|letter: char| letter.is_ascii_digit());
        redacted.push_str(if rest.len() < part.len() {
            REDACTED
        } else {
            SECRET
        });
        redacted.push_str(rest);
    }
    redacted
}
