//! The most frequent failures: groups that differ only in their kind are one failure. Pure.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use redrive::dlq::{FailureGroup, LetterFilter};
use serde_json::Value;

use crate::dlq::group::{list_of, state, waiting};
use crate::prelude::*;

/// A failure: one group, or the groups of several kinds.
#[derive(Debug)]
pub(super) struct Failure<'a> {
    /// The groups, the one with the newest death first.
    groups: Vec<&'a FailureGroup>,
}

/// Returns the failures, regressions first, then those with the most waiting letters.
pub(super) fn failures(groups: &[FailureGroup]) -> Vec<Failure<'_>> {
    let mut failures: Vec<Failure<'_>> = Vec::new();
    for group in groups {
        let same = |failure: &&mut Failure<'_>| {
            let other = failure.newest();
            other.queue == group.queue
                && other.error_class == group.error_class
                && other.title == group.title
        };
        match failures.iter_mut().find(same) {
            Some(failure) => failure.groups.push(group),
            None => failures.push(Failure {
                groups: vec![group],
            }),
        }
    }
    for failure in &mut failures {
        failure.groups.sort_by_key(|group| Reverse(group.last_seen));
    }
    failures.sort_by_key(|failure| (!failure.is_regression(), Reverse(failure.waiting())));
    failures
}

impl<'a> Failure<'a> {
    /// The group with the newest death.
    pub(super) fn newest(&self) -> &'a FailureGroup {
        self.groups[0]
    }

    /// The group, if there is only one.
    pub(super) fn only(&self) -> Option<&'a FailureGroup> {
        match *self.groups {
            [group] => Some(group),
            _ => None,
        }
    }

    /// The kinds that fail like this.
    pub(super) fn kinds(&self) -> BTreeSet<&str> {
        self.groups.iter().map(|group| &*group.kind).collect()
    }

    /// Open and quarantined letters.
    pub(super) fn waiting(&self) -> u64 {
        self.sum(waiting)
    }

    pub(super) fn quarantined(&self) -> u64 {
        self.sum(|group| group.quarantined)
    }

    fn sum(&self, letters: impl Fn(&FailureGroup) -> u64) -> u64 {
        self.groups.iter().map(|group| letters(group)).sum()
    }

    pub(super) fn is_regression(&self) -> bool {
        self.groups.iter().any(|group| group.is_regression())
    }

    /// The states of the groups, each once: `REGRESSION`, `open`, `acknowledged`, `resolved`.
    pub(super) fn states(&self) -> String {
        let mut states: Vec<&str> = Vec::new();
        for group in &self.groups {
            if !states.contains(&state(group)) {
                states.push(state(group));
            }
        }
        states.sort_unstable_by_key(|state| !state.contains("REGRESSION"));
        states.join(", ")
    }

    /// The owner of all groups.
    pub(super) fn owner(&self) -> Option<&'a str> {
        let owner = self.newest().owner.as_deref();
        let is_shared = self
            .groups
            .iter()
            .all(|group| group.owner.as_deref() == owner);
        owner.filter(|_| is_shared)
    }

    /// Deaths per hour over the last 24 hours, the current hour last.
    pub(super) fn hours(&self) -> Vec<u64> {
        let hours = self.groups.iter().map(|group| group.hours.len());
        let sum = |hour| self.sum(|group| group.hours.get(hour).copied().unwrap_or_default());
        (0..hours.max().unwrap_or_default()).map(sum).collect()
    }

    /// The command to type next.
    pub(super) fn next(&self) -> String {
        if let Some(group) = self.only() {
            return match group.is_regression() {
                true => format!("{Me} dlq groups show {}", group.id),
                false => list_of(group),
            };
        }
        let class = LetterFilter::new().error_class(&*self.newest().error_class);
        let queue = LetterFilter::new().queue(&*self.newest().queue);
        let [queue, class] = [queue, class].map(|of| quoted(&of.to_string()));
        format!("{Me} dlq groups {queue} {class}")
    }

    pub(super) fn json(&self) -> Value {
        let newest = self.newest();
        json!({
            "queue": newest.queue,
            "error_class": newest.error_class,
            "title": newest.title,
            "newest_message": newest.newest,
            "kinds": self.kinds(),
            "groups": self.groups.iter().map(|group| group.id.get()).collect::<Vec<_>>(),
            "letters": self.waiting(),
            "quarantined": self.quarantined(),
            "regression": self.is_regression(),
            "last_at": rfc3339(newest.last_seen),
        })
    }
}
