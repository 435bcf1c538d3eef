//! Limits the log lines about failed attempts, so that a flood of them does not fill the disk. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::sync::Instant;

/// The time between two lines about the same failure.
pub(super) const PER_LINE: Duration = Duration::from_secs(1);

/// How many failures have lines of their own. Further ones share a line.
const MAX_FAILURES: usize = 100;

/// What the lines about a failure have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FailureKind {
    /// What follows from the failure.
    pub(super) end: FailureEnd,
    pub(super) kind: Arc<str>,
    pub(super) class: Box<str>,
}

/// What follows from a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FailureEnd {
    Retried,
    Interrupted,
    Dead,
}

/// The failures of about the last second.
#[derive(Debug, Default)]
pub(super) struct FailureLog {
    recent: BTreeMap<FailureKind, Recent>,
}

#[derive(Debug)]
struct Recent {
    logged: Instant,
    suppressed: u64,
}

impl FailureLog {
    /// Returns whether to log a failure, with the number of those that were suppressed before.
    pub(super) fn admit(&mut self, failure: FailureKind, now: Instant) -> Option<u64> {
        let is_crowded = self.recent.len() >= MAX_FAILURES && !self.recent.contains_key(&failure);
        let failure = match is_crowded {
            true => FailureKind {
                kind: "other kinds".into(),
                class: "other classes".into(),
                ..failure
            },
            false => failure,
        };
        let Some(recent) = self.recent.get_mut(&failure) else {
            let recent = Recent {
                logged: now,
                suppressed: 0,
            };
            self.recent.insert(failure, recent);
            return Some(0);
        };
        if now.saturating_duration_since(recent.logged) < PER_LINE {
            recent.suppressed += 1;
            return None;
        }
        recent.logged = now;
        Some(std::mem::take(&mut recent.suppressed))
    }

    /// When suppressed failures must be logged. `None`: there are none.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let suppressed = self.recent.values().filter(|recent| recent.suppressed > 0);
        suppressed.map(|recent| recent.logged + PER_LINE).min()
    }

    /// Returns the failures that were suppressed since their last line, and forgets what is old.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<(FailureKind, u64)> {
        let is_old = |recent: &Recent| now.saturating_duration_since(recent.logged) >= PER_LINE;
        self.recent
            .retain(|_, recent| recent.suppressed > 0 || !is_old(recent));
        let due = self.recent.iter_mut().filter(|(_, recent)| is_old(recent));
        due.map(|(failure, recent)| {
            recent.logged = now;
            (failure.clone(), std::mem::take(&mut recent.suppressed))
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = PER_LINE;

    fn dead(kind: &str, class: &str) -> FailureKind {
        FailureKind {
            end: FailureEnd::Dead,
            kind: kind.into(),
            class: class.into(),
        }
    }

    #[test]
    fn a_failure_has_one_line_a_second_that_counts_the_suppressed_ones() {
        let start = Instant::now();
        let mut log = FailureLog::default();
        for (after, kind, class, logged) in [
            (0, "a", "X", Some(0)),
            (0, "a", "X", None),
            (500, "a", "X", None),
            (500, "b", "X", Some(0)),
            (500, "a", "Y", Some(0)),
            (999, "a", "X", None),
            (1000, "a", "X", Some(3)),
            (1001, "a", "X", None),
            (9000, "a", "X", Some(1)),
        ] {
            let now = start + Duration::from_millis(after);
            assert_eq!(log.admit(dead(kind, class), now), logged, "{after} {kind}");
        }
    }

    #[test]
    fn the_end_of_a_flood_is_logged_too() {
        let start = Instant::now();
        let mut log = FailureLog::default();
        assert_eq!(log.admit(dead("a", "X"), start), Some(0));
        assert_eq!(log.next_due(), None);
        for _ in 0..7 {
            assert_eq!(log.admit(dead("a", "X"), start), None);
        }
        assert_eq!(log.next_due(), Some(start + SECOND));
        assert_eq!(log.take_due(start), []);
        assert_eq!(log.take_due(start + SECOND), [(dead("a", "X"), 7)]);
        assert_eq!(log.next_due(), None);
        assert_eq!(log.admit(dead("a", "X"), start + SECOND), None);
        assert_eq!(log.take_due(start + 2 * SECOND), [(dead("a", "X"), 1)]);
    }

    #[test]
    fn failures_beyond_the_limit_share_a_line() {
        let now = Instant::now();
        let mut log = FailureLog::default();
        let lines = (0..10_000).filter(|number| {
            let class = number.to_string();
            log.admit(dead("a", &class), now).is_some()
        });
        assert_eq!(lines.count(), MAX_FAILURES + 1);
        assert_eq!(log.take_due(now + SECOND).len(), 1);
        assert_eq!(log.take_due(now + 2 * SECOND), []);
        assert_eq!(log.recent.len(), 0);
    }
}
