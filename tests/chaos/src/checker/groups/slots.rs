//! Checks that each turn belongs to a live job or to an open letter, and that a group never has more than it may.
//! Followers run in the turn of the job before them. Rule C47 checks that no turn is left at the end.

use std::collections::{BTreeMap, BTreeSet};

use redrive::GroupPolicy;

use super::Groups;
use super::events::{GroupEvent, What};
use crate::checker::{Findings, Rule, Run};
use crate::db_trace::Turn;
use crate::history::Operation;
use crate::role::groups::policy_of;

/// Where the job of a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Leased,
    OpenLetter,
    Ended,
}

pub(super) fn check(run: &Run<'_>, groups: &Groups<'_>, findings: &mut Findings) {
    for (&(queue, group), events) in groups {
        let limit = match policy_of(queue) {
            Some(GroupPolicy::Ordered(_)) => Some(1),
            Some(GroupPolicy::Limit(limit)) => Some(limit as usize),
            _ => None,
        };
        let mut states: BTreeMap<i64, State> = BTreeMap::new();
        let mut turns: BTreeMap<i64, Turn> = BTreeMap::new();
        for transaction in events.chunk_by(|one, other| one.tx == other.tx) {
            for event in transaction {
                apply(event, &mut states, &mut turns);
            }
            let freed = transaction
                .iter()
                .find(|event| event.what == What::Turn(Turn::Freed));
            let leased = states.iter().find(|(_, state)| **state == State::Leased);
            if let (Some(freed), Some((job, _))) = (freed, leased)
                && turns.is_empty()
            {
                let text = format!("it runs in the group {group}, which has no turn any more");
                findings.add(Rule::TurnOwned, *job, freed.at, text);
            }
            let last = &transaction[transaction.len() - 1];
            if limit.is_some_and(|limit| turns.len() > limit) {
                let others = turns.len() - 1;
                let text = format!("{others} other jobs of the group {group} had a turn");
                findings.add(Rule::GroupLimit, last.job, last.at, text);
            }
            check_transaction(transaction, limit.is_some(), &states, &turns, findings);
        }
    }
    check_releases(run, findings);
}

/// Checks that a release that a client got acknowledged ended the turn of the letter.
fn check_releases(run: &Run<'_>, findings: &mut Findings) {
    let slots = run.records.slots.iter();
    let freed = slots.filter(|slot| slot.change == Turn::Freed);
    let freed: BTreeSet<(&str, i64)> = freed.map(|slot| (&*slot.process, slot.job)).collect();
    let what = "released it, but it kept its turn";
    let demanded = (Operation::Release, Rule::GroupHold, what);
    run.check_answers(
        demanded,
        |call, letter| freed.contains(&(call.process, letter)),
        findings,
    );
}

fn apply(
    event: &GroupEvent<'_>,
    states: &mut BTreeMap<i64, State>,
    turns: &mut BTreeMap<i64, Turn>,
) {
    let job = event.job;
    match event.what {
        What::Ready { .. } | What::Delayed | What::Returned | What::SentBack => {
            states.insert(job, State::Waiting);
        }
        What::Started => {
            states.insert(job, State::Leased);
        }
        What::Died { .. } | What::Opened => {
            states.insert(job, State::OpenLetter);
        }
        What::Done | What::Closed => {
            states.insert(job, State::Ended);
        }
        What::Turn(Turn::Freed) => {
            turns.remove(&job);
        }
        What::Turn(turn) => {
            turns.insert(job, turn);
        }
    }
}

fn check_transaction(
    transaction: &[GroupEvent<'_>],
    is_bounded: bool,
    states: &BTreeMap<i64, State>,
    turns: &BTreeMap<i64, Turn>,
    findings: &mut Findings,
) {
    let has_turn =
        |event: &GroupEvent<'_>| event.what == What::Started && turns.contains_key(&event.job);
    let follows = transaction.iter().any(has_turn);
    for event in transaction {
        let (state, turn) = (states.get(&event.job).copied(), turns.get(&event.job));
        let text = match (event.what, state, turn) {
            (What::Started, Some(State::Leased), None) if is_bounded && !follows => {
                "it started without a turn"
            }
            (What::Turn(_), _, None) => continue,
            (What::Turn(_), Some(State::Waiting | State::Leased), Some(Turn::Held)) => {
                "it is live, but its letter has the turn"
            }
            (What::Turn(_), Some(State::OpenLetter), Some(Turn::Taken)) => {
                "its letter has the turn of a live job"
            }
            (What::Turn(_), Some(state), _) if state != State::Ended => continue,
            (What::Turn(_) | What::Done | What::Closed, _, Some(_)) => {
                "it has ended, but keeps its turn"
            }
            _ => continue,
        };
        let text = format!("{text} of the group {}", event.group);
        findings.add(Rule::TurnOwned, event.job, event.at, text);
    }
}
