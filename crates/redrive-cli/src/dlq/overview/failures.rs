//! The most frequent failures: groups that differ only in their kind are one failure. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use redrive::dlq::{FailureGroup, LetterFilter};
use serde_json::Value;

use super::activity::Activity;
use crate::dlq::group::{failure, list_of, state, waiting};
use crate::prelude::*;
use crate::terminal::{cut, sparkline};

/// A failure: one group, or the groups of several kinds.
#[derive(Debug)]
pub(super) struct Failure<'a> {
    /// The groups, the one with the newest death first.
    groups: Vec<&'a FailureGroup>,
    newest: &'a FailureGroup,
    kinds: BTreeSet<&'a str>,
    /// Open and quarantined letters.
    waiting: u64,
    quarantined: u64,
    is_regression: bool,
}

/// Returns the failures, regressions first, then those with the most waiting letters.
pub(super) fn failures(groups: &[FailureGroup]) -> Vec<Failure<'_>> {
    let mut alike: BTreeMap<_, Vec<&FailureGroup>> = BTreeMap::new();
    for group in groups {
        // An erased title says nothing of the failure.
        let apart = (group.title == "[erased]").then_some(group.id.get());
        let failure = (&group.queue, &group.error_class, &group.title, apart);
        alike.entry(failure).or_default().push(group);
    }
    let mut failures: Vec<Failure<'_>> = alike.into_values().map(Failure::of).collect();
    failures.sort_by_key(|failure| (!failure.is_regression, Reverse(failure.waiting)));
    failures
}

impl<'a> Failure<'a> {
    /// Groups that are alike, at least one.
    fn of(mut groups: Vec<&'a FailureGroup>) -> Failure<'a> {
        groups.sort_by_key(|group| Reverse(group.last_seen));
        Failure {
            newest: groups[0],
            kinds: groups.iter().map(|group| &*group.kind).collect(),
            waiting: groups.iter().map(|group| waiting(group)).sum(),
            quarantined: groups.iter().map(|group| group.quarantined).sum(),
            is_regression: groups.iter().any(|group| group.is_regression),
            groups,
        }
    }

    /// The entry of the screen: the message, where it failed and in which state that is, and when.
    pub(super) fn activity(&self) -> Activity {
        let newest = self.newest;
        let id = self.only().map(|group| group.id.to_string());
        let (kind, kinds) = match self.kinds.len() {
            1 => (format!(" {}", newest.kind), String::new()),
            kinds => (String::new(), format!(" in {kinds} kinds")),
        };
        let quarantined = match self.quarantined {
            0 => String::new(),
            quarantined => format!(" ({} quarantined)", grouped(quarantined)),
        };
        let owner = self.owner().map(|owner| format!(" ({})", cut(owner, 20)));
        let state = format!(
            "{}{kind}: {}{}, {} waiting{kinds}{quarantined}, last {} ago",
            newest.queue,
            self.states(),
            owner.unwrap_or_default(),
            grouped(self.waiting),
            ago(newest.last_seen)
        );
        let hours = self.hours();
        Activity {
            line: format!("{} {}", id.as_deref().unwrap_or("-"), failure(newest)),
            details: vec![
                one_line(&state),
                format!("|{}| {} h", sparkline(&hours), hours.len()),
            ],
            next: self.next(),
        }
    }

    /// The group, if there is only one.
    fn only(&self) -> Option<&'a FailureGroup> {
        (self.groups.len() == 1).then_some(self.newest)
    }

    /// The states of the groups, each once: `REGRESSION`, `open`, `acknowledged`, `resolved`.
    fn states(&self) -> String {
        let states = self.groups.iter().map(|group| state(group));
        let mut states: Vec<&str> = states.collect();
        states.sort_by_key(|state| (!state.contains("REGRESSION"), *state));
        states.dedup();
        states.join(", ")
    }

    /// The owner of all groups.
    fn owner(&self) -> Option<&'a str> {
        let owner = self.newest.owner.as_deref();
        let is_shared = |group: &&FailureGroup| group.owner.as_deref() == owner;
        owner.filter(|_| self.groups.iter().all(is_shared))
    }

    /// Deaths per hour over the last 24 hours, the current hour last.
    fn hours(&self) -> Vec<u64> {
        let deaths = |hour: usize| -> u64 {
            let groups = self.groups.iter();
            groups.filter_map(|group| group.hours.get(hour)).sum()
        };
        (0..self.newest.hours.len()).map(deaths).collect()
    }

    /// The command to type next.
    fn next(&self) -> String {
        if let Some(group) = self.only() {
            return match group.is_regression {
                true => format!("{Me} dlq groups show {}", group.id),
                false => list_of(group),
            };
        }
        let class = LetterFilter::new().error_class(&*self.newest.error_class);
        let queue = LetterFilter::new().queue(&*self.newest.queue);
        let [queue, class] = [queue, class].map(|of| quoted(&of.to_string()));
        format!("{Me} dlq groups {queue} {class}")
    }

    pub(super) fn json(&self) -> Value {
        let newest = self.newest;
        json!({
            "queue": newest.queue,
            "error_class": newest.error_class,
            "title": newest.title,
            "newest_message": newest.newest,
            "kinds": self.kinds,
            "groups": self.groups.iter().map(|group| group.id.get()).collect::<Vec<_>>(),
            "letters": self.waiting,
            "quarantined": self.quarantined,
            "regression": self.is_regression,
            "last_at": rfc3339(newest.last_seen),
        })
    }
}
