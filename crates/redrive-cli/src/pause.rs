//! The pause of a queue and a breaker, as text and as JSON.

use redrive::admin::{Breaker, BreakerState, QueuePause, QueueStats};
use serde::Serialize;

use crate::terminal::{Json as _, object};
use crate::time::until;

/// Whether a queue runs its jobs or why not, in one word. A breaker counts if it holds every kind with
/// ready jobs.
pub(crate) fn state(queue: &QueueStats, breakers: &[Breaker]) -> &'static str {
    let mut open = breakers
        .iter()
        .filter(|of| of.state != BreakerState::Closed);
    let is_held = |kind: &str| {
        open.clone()
            .any(|of| of.kinds.iter().any(|held| held == kind))
    };
    let mut ready = queue.kinds.iter().filter(|kind| kind.ready > 0).peekable();
    if queue.pause.is_some() {
        "paused"
    } else if queue.workers == 0 {
        "unserved"
    } else if ready.peek().is_some() && ready.all(|kind| is_held(&kind.kind))
        || open.any(|of| of.name.strip_prefix("queue:") == Some(&queue.queue))
    {
        "breaker"
    } else {
        "running"
    }
}

/// The time until a pause ends, as text. Without an end: `never`.
pub(crate) fn ends_in(pause: &QueuePause) -> String {
    match pause.ends_at {
        None => "never".to_owned(),
        Some(at) => until(at).unwrap_or_else(|| "now".to_owned()),
    }
}

pub(crate) fn pause_json(pause: &QueuePause) -> impl Serialize {
    object!(pause => paused_at, ends_at, person, reason)
}

pub(crate) fn breaker_line(breaker: &Breaker) -> impl Serialize {
    object!(breaker =>
        id = &breaker.name, state, cause, message, kinds, outages, openings, probes,
        wait_ms = breaker.wait.json(), opened_at, probe_at, changed_at,
    )
}
