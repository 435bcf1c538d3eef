//! Ready jobs that no live worker takes. Pure.

use std::fmt;

use redrive::admin::{KindStats, QueueStats};

use crate::terminal::{counted, grouped};

/// The ready jobs of one queue that no live worker takes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unhandled<'a> {
    pub(super) queue: &'a str,
    jobs: u64,
    /// The kinds, those with most jobs first; `None`: the queue has no live worker at all.
    kinds: Option<Vec<&'a str>>,
}

/// Returns the kinds with ready jobs that no live worker handles.
pub(super) fn unhandled_kinds(queue: &QueueStats) -> impl Iterator<Item = &KindStats> {
    queue
        .kinds
        .iter()
        .filter(|kind| kind.ready > 0 && !kind.is_handled)
}

/// Returns the ready jobs that no live worker takes, if there are any.
pub(super) fn unhandled(queue: &QueueStats) -> Option<Unhandled<'_>> {
    let mut kinds: Vec<&KindStats> = unhandled_kinds(queue).collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.ready));
    (!kinds.is_empty()).then(|| Unhandled {
        queue: &queue.queue,
        jobs: kinds.iter().map(|kind| kind.ready).sum(),
        kinds: (queue.workers > 0).then(|| kinds.iter().map(|kind| &*kind.kind).collect()),
    })
}

impl fmt::Display for Unhandled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unhandled { queue, jobs, kinds } = self;
        match kinds {
            None => write!(f, "{queue}: no live worker, {} ready", grouped(*jobs)),
            Some(kinds) => write!(
                f,
                "{queue}: no live worker for {} with {} ready: {}",
                counted(kinds.len() as u64, "kind"),
                grouped(*jobs),
                kinds.join(", ")
            ),
        }
    }
}
