//! Limits the log lines about failed attempts, so that a flood of them does not fill the disk. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::sync::Instant;
use crate::worker::observer::AttemptOutcome;

/// How often a failure has a line.
pub(super) const PER_LINE: Duration = Duration::from_secs(1);

/// What the lines about a failure have in common: what follows from it, the kind of the job and the class of the error.
pub(super) type FailureKind = (AttemptOutcome, Arc<str>, Box<str>);

/// The failures since the first of a second.
#[derive(Debug, Default)]
pub(super) struct FailureLog {
    since: Option<Instant>,
    failures: BTreeMap<FailureKind, u64>,
}

impl FailureLog {
    /// Counts a failure. Returns whether to log it, because it is the first of its kind.
    pub(super) fn admit(&mut self, failure: FailureKind, now: Instant) -> bool {
        self.since.get_or_insert(now);
        let count = self.failures.entry(failure).or_default();
        *count += 1;
        *count == 1
    }

    /// When the second ends. `None`: there were no failures.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.since.map(|since| since + PER_LINE)
    }

    /// At the end of the second, returns how many failures had no line, and begins anew.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<(FailureKind, u64)> {
        if self.next_due().is_none_or(|due| now < due) {
            return Vec::new();
        }
        let ended = std::mem::take(self).failures.into_iter();
        ended
            .filter(|(_, count)| *count > 1)
            .map(|(failure, count)| (failure, count - 1))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(kind: &str, class: &str) -> FailureKind {
        (AttemptOutcome::Dead, kind.into(), class.into())
    }

    #[test]
    fn a_failure_has_one_line_a_second_and_the_others_are_counted() {
        let start = Instant::now();
        let mut log = FailureLog::default();
        assert_eq!(log.next_due(), None);
        for second in [0, 5].map(Duration::from_secs) {
            let now = start + second;
            for (kind, class, is_logged) in [
                ("a", "X", true),
                ("a", "X", false),
                ("b", "X", true),
                ("a", "Y", true),
                ("a", "X", false),
            ] {
                assert_eq!(log.admit(dead(kind, class), now), is_logged, "{kind}");
            }
            assert_eq!(log.next_due(), Some(now + PER_LINE));
            assert_eq!(log.take_due(now), []);
            assert_eq!(log.take_due(now + PER_LINE), [(dead("a", "X"), 2)]);
            assert_eq!(log.next_due(), None);
        }
    }
}
