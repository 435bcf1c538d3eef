//! Checks that a group never has more turns than its limit. Followers run in the turn of the job before them.

use std::collections::BTreeSet;

use super::events::{GroupEvent, What};
use crate::checker::{Findings, Rule};
use crate::db_trace::Turn;

pub(super) fn check(events: &[GroupEvent<'_>], limit: u32, findings: &mut Findings) {
    let mut turns = BTreeSet::new();
    for event in events {
        match event.what {
            What::Turn(Turn::Freed) => drop(turns.remove(&event.job)),
            What::Turn(Turn::Taken) => drop(turns.insert(event.job)),
            _ => continue,
        }
        if turns.len() > limit as usize {
            let (group, others) = (event.group, turns.len() - 1);
            let text = format!("{others} other jobs of the group {group} had a turn");
            findings.add(Rule::GroupLimit, event.job, event.at, text);
        }
    }
}
