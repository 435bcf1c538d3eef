//! Checks that a group never has more turns than its limit. Followers run in the turn of the job before them.

use std::collections::BTreeSet;

use super::events::{GroupEvent, What};
use crate::checker::{Findings, Path, Rule};
use crate::db_trace::Turn;

pub(super) fn check(events: &[GroupEvent<'_>], limit: u32, findings: &mut Findings) {
    let mut turns = BTreeSet::new();
    for event in events {
        match event.what {
            What::Turn(Turn::Freed) => {
                turns.remove(&event.job);
            }
            What::Turn(Turn::Taken) => {
                turns.insert(event.job);
                if turns.len() == limit as usize {
                    findings.paths.take(Path::LimitReached);
                }
                if turns.len() > limit as usize {
                    let text = format!(
                        "it started in the group {}, of which {} other jobs had a turn",
                        event.group,
                        turns.len() - 1
                    );
                    findings.add(Rule::GroupLimit, Some(event.job), event.at, text);
                }
            }
            _ => {}
        }
    }
}
