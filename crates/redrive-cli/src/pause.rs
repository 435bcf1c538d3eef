//! The pause of a queue and a breaker, as text and as JSON.

use std::time::SystemTime;

use redrive::admin::{Breaker, QueuePause, QueueStats};
use serde::Serialize;

use crate::terminal::{Json as _, line};
use crate::time::short;

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
pub(crate) fn pause_json(pause: &QueuePause) -> impl Serialize {
    line!(pause => paused_at, ends_at, person, reason)
}

/// A breaker as one line of JSON.
pub(crate) fn breaker_line(breaker: &Breaker) -> impl Serialize {
    line!(breaker =>
        id = &breaker.name, state, cause, message, kinds, outages, openings, probes,
        wait_ms = breaker.wait.json(), opened_at, probe_at, changed_at,
    )
}
