//! Ready jobs that no live worker takes. Pure.

use redrive::admin::{KindStats, QueueStats};

use super::activity::Activity;
use crate::prelude::*;

/// Returns the kinds with ready jobs that no live worker handles.
pub(super) fn unhandled_kinds(queue: &QueueStats) -> impl Iterator<Item = &KindStats> {
    let kinds = queue.kinds.iter();
    kinds.filter(|kind| kind.ready > 0 && !kind.is_handled)
}

/// Returns the ready jobs of a queue that no live worker takes, if there are any.
pub(super) fn unhandled(queue: &QueueStats) -> Option<Activity> {
    let mut kinds: Vec<&KindStats> = unhandled_kinds(queue).collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.ready));
    let (name, names) = (&queue.queue, kinds.iter().map(|kind| &*kind.kind));
    let ready = grouped(kinds.iter().map(|kind| kind.ready).sum());
    let line = match queue.workers {
        0 => format!("{name}: no live worker, {ready} ready"),
        _ => format!(
            "{name}: no live worker for {} with {ready} ready: {}",
            counted(kinds.len() as u64, "kind"),
            names.collect::<Vec<_>>().join(", ")
        ),
    };
    (!kinds.is_empty()).then(|| Activity {
        line,
        next: format!("{Me} stats {}", operand(name)),
        json: json!(null),
    })
}
