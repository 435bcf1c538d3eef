//! The pause of a queue, as text and as JSON.

use std::time::SystemTime;

use redrive::admin::{QueuePause, QueueStats};
use serde_json::{Value, json};

use crate::time::{rfc3339, short};

/// Whether a queue is paused, in one word.
pub(crate) fn state(queue: &QueueStats) -> &'static str {
    match queue.pause {
        Some(_) => "paused",
        None => "running",
    }
}

/// The time until a pause ends, as text. Without an end: `never`.
pub(crate) fn ends_in(pause: &QueuePause) -> String {
    match pause.ends_at {
        None => "never".to_owned(),
        Some(at) => at
            .duration_since(SystemTime::now())
            .map_or_else(|_| "now".to_owned(), short),
    }
}

/// A pause as JSON.
pub(crate) fn pause_json(pause: &QueuePause) -> Value {
    json!({
        "paused_at": rfc3339(pause.paused_at),
        "ends_at": pause.ends_at.map(rfc3339),
        "person": pause.person,
        "reason": pause.reason,
    })
}
