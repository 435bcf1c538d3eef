//! The kinds that no live worker handles, and since when this worker has seen that. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::sync::Instant;

/// When this worker first saw each kind without a live worker. A kind that is handled again, or whose jobs
/// are gone, is forgotten.
#[derive(Debug, Default)]
pub(crate) struct UnhandledKinds {
    since: BTreeMap<String, Instant>,
}

impl UnhandledKinds {
    /// Records the kinds that no live worker handles now. Returns those for which that has been so for
    /// `limit`.
    pub(crate) fn seen(
        &mut self,
        kinds: Vec<String>,
        limit: Duration,
        now: Instant,
    ) -> Vec<String> {
        let since = |kind: String| {
            let first = self.since.get(&kind).copied().unwrap_or(now);
            (kind, first)
        };
        self.since = kinds.into_iter().map(since).collect();
        self.since
            .iter()
            .filter(|(_, first)| now.saturating_duration_since(**first) >= limit)
            .map(|(kind, _)| kind.clone())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_due_once_no_look_has_found_a_worker_for_the_whole_time() {
        let begin = Instant::now();
        let limit = Duration::from_secs(10);
        let mut unhandled = UnhandledKinds::default();
        for (seconds, kinds, due) in [
            (0, &["a", "b"][..], &[][..]),
            (5, &["a", "b"], &[]),
            // A worker handles `b` for a moment.
            (9, &["a"], &[]),
            (10, &["a", "b"], &["a"]),
            (19, &["b"], &[]),
            (20, &["a", "b"], &["b"]),
            (30, &[], &[]),
            (40, &["a"], &[]),
        ] {
            let kinds = kinds.iter().map(ToString::to_string).collect();
            let now = begin + Duration::from_secs(seconds);
            assert_eq!(unhandled.seen(kinds, limit, now), due, "after {seconds} s");
        }
    }
}
