//! Checks that groups take turns: a group with a waiting job has its turn before a process gives another one many.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::events::{GroupEvent, What};
use crate::checker::{Findings, IN_FLIGHT, Rule};

/// How many claims of a process may take jobs of one group while another one waits. A walk over the groups gives
/// each one turn; the rest allows for rows that another process has locked.
const TURNS: usize = 20;

/// Checks the events of all groups of a queue.
pub(super) fn check(events: &[&GroupEvent<'_>], findings: &mut Findings) {
    let claims = claims(events);
    // The waiting jobs of each group, and since when the group waits for its next turn.
    let mut waiting: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
    let mut since: HashMap<&str, i64> = HashMap::new();
    for event in events {
        let of_group = waiting.entry(event.group).or_default();
        match event.what {
            What::Ready { waits: true } => {
                if of_group.is_empty() {
                    since.insert(event.group, event.committed);
                }
                of_group.insert(event.job);
            }
            What::Started if of_group.remove(&event.job) => {
                if let Some(since) = since.insert(event.group, event.committed) {
                    let (waited, job) = ((since, event.seq), (event.job, event.at));
                    check_wait(&claims, event.group, waited, job, findings);
                }
            }
            // A cancelled job that waited ends without a turn.
            What::Delayed | What::Done | What::Died { .. } => {
                of_group.remove(&event.job);
            }
            _ => {}
        }
    }
    // Some groups never had a turn.
    for (group, jobs) in waiting {
        if let (Some(job), Some(since)) = (jobs.first(), since.get(group)) {
            check_wait(&claims, group, (*since, i64::MAX), (*job, *since), findings);
        }
    }
}

/// The claims of the queue, by the first start of each group in them, in order.
fn claims<'a>(events: &[&'a GroupEvent<'a>]) -> Vec<&'a GroupEvent<'a>> {
    let mut seen = HashSet::new();
    let starts = events.iter().filter(|event| event.what == What::Started);
    let first = starts.filter(|event| seen.insert((event.tx, event.group)));
    first.copied().collect()
}

/// Checks a group that waited since a time until a row change, with one of its jobs.
fn check_wait(
    claims: &[&GroupEvent<'_>],
    group: &str,
    (since, until): (i64, i64),
    (job, at): (i64, i64),
    findings: &mut Findings,
) {
    let until = claims.partition_point(|claim| claim.seq < until);
    let mut turns: HashMap<(&str, &str), usize> = HashMap::new();
    for claim in claims[..until].iter().rev() {
        // A claim takes less than this, so that no earlier one began later.
        if claim.began + 10 * IN_FLIGHT < since {
            break;
        }
        if claim.began > since + IN_FLIGHT && claim.group != group {
            *turns.entry((claim.process, claim.group)).or_default() += 1;
        }
    }
    let most = turns.iter().max_by_key(|(_, turns)| **turns);
    if let Some(((process, other), turns)) = most.filter(|(_, turns)| **turns > TURNS) {
        let text = format!("{group} waited while {process} claimed {turns} times from {other}");
        findings.add(Rule::FairTurn, job, at, text);
    }
}
