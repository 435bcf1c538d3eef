//! What happened to the jobs of each group, in one sequence.

use std::collections::HashMap;

use super::Groups;
use crate::checker::Records;
use crate::db_trace::{Change, Place, RowChange, Turn};
use crate::role::groups::policy_of;

/// A change of a job of a group, or of a turn.
#[derive(Clone, Debug)]
pub(super) struct GroupEvent<'a> {
    pub(super) seq: i64,
    pub(super) at: i64,
    /// When its statement began.
    pub(super) began: i64,
    pub(super) committed: i64,
    pub(super) tx: i64,
    pub(super) process: &'a str,
    pub(super) group: &'a str,
    pub(super) job: i64,
    pub(super) what: What<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What<'a> {
    /// It became ready: new, due, redriven, or moved.
    Ready {
        waits: bool,
    },
    /// It is delayed now.
    Delayed,
    Started,
    Done,
    Died {
        cause: &'a str,
        is_charged: bool,
        /// Whether it did not run.
        has_waited: bool,
    },
    /// Its letter was sent back.
    SentBack,
    /// Its letter was closed or deleted.
    Closed,
    Turn(Turn),
}

/// Returns the events of all groups whose queue has a policy.
pub(super) fn by_group(records: &Records) -> Groups<'_> {
    let mut groups = Groups::new();
    for changes in records.trace.chunk_by(|one, other| one.job == other.job) {
        let facts = changes.iter().find_map(|change| change.facts.as_deref());
        let Some(facts) = facts.filter(|facts| policy_of(&facts.queue).is_some()) else {
            continue;
        };
        let Some(group) = facts.group_key.as_deref() else {
            continue;
        };
        let events = groups.entry((&*facts.queue, group)).or_default();
        events_of(changes, group, events);
    }
    for slot in &records.slots {
        let events = groups.entry((&*slot.queue, &*slot.group)).or_default();
        events.push(GroupEvent {
            seq: slot.seq,
            at: slot.at,
            began: slot.at,
            committed: slot.at,
            tx: slot.tx,
            process: &slot.process,
            group: &slot.group,
            job: slot.job,
            what: What::Turn(slot.change),
        });
    }
    for events in groups.values_mut() {
        in_order(events);
    }
    groups
}

/// Puts the events of a group into the order of its transactions. What a statement does to a turn comes after
/// what it does to the job, although triggers record some of it before. A claim starts jobs in the order of their ids.
fn in_order(events: &mut [GroupEvent<'_>]) {
    let mut ends: HashMap<i64, i64> = HashMap::new();
    let mut claims: HashMap<i64, i64> = HashMap::new();
    for event in &*events {
        let end = ends.entry(event.tx).or_insert(event.seq);
        *end = event.seq.max(*end);
        if event.what == What::Started {
            let claim = claims.entry(event.tx).or_insert(event.seq);
            *claim = event.seq.min(*claim);
        }
    }
    events.sort_by_key(|event| {
        let is_turn = matches!(event.what, What::Turn(_));
        let (place, job) = match event.what {
            What::Started => (claims.get(&event.tx).copied(), event.job),
            _ => (Some(event.seq), 0),
        };
        (ends.get(&event.tx).copied(), is_turn, place, job)
    });
}

/// Adds the events of a job.
fn events_of<'a>(changes: &'a [RowChange], group: &'a str, events: &mut Vec<GroupEvent<'a>>) {
    let mut here: Option<&RowChange> = None;
    let mut is_open = false;
    for all in changes.chunk_by(|one, other| one.tx == other.tx) {
        let mut real = all.iter().filter(|change| change.change != Change::Edited);
        if real.clone().next().is_none() {
            continue;
        }
        let entered = real
            .clone()
            .find(|change| change.place != Place::Letter && change.change == Change::In);
        let has_left = real
            .clone()
            .any(|change| change.place != Place::Letter && change.change == Change::Out);
        let letter = real.rfind(|change| change.place == Place::Letter);
        let opens = letter.is_some_and(RowChange::is_open_letter);
        let mut add = |change: &'a RowChange, what: What<'a>| {
            events.push(GroupEvent {
                seq: change.seq,
                at: change.at,
                began: change.began,
                committed: change.committed,
                tx: change.tx,
                process: &change.process,
                group,
                job: change.job,
                what,
            });
        };
        let first = &all[0];
        match (here.filter(|_| has_left), entered) {
            (Some(_), Some(entered)) if entered.place == Place::Leased => {
                add(entered, What::Started);
            }
            (Some(left), None) => match letter.filter(|_| opens) {
                Some(letter) => {
                    let cause = letter.cause.as_deref().unwrap_or_default();
                    let is_charged = letter.attempt != left.attempt;
                    let died = What::Died {
                        cause,
                        is_charged,
                        has_waited: left.place != Place::Leased,
                    };
                    add(letter, died);
                }
                None => add(first, What::Done),
            },
            (None, Some(entered)) if letter.is_some() => add(entered, What::SentBack),
            (None, None) if is_open && !opens => add(first, What::Closed),
            _ => {}
        }
        match entered {
            Some(entered) if entered.place == Place::Ready => {
                let waits = entered.is_waiting;
                add(entered, What::Ready { waits });
            }
            Some(entered) if entered.place == Place::Delayed => add(entered, What::Delayed),
            _ => {}
        }
        if has_left || entered.is_some() {
            here = entered;
        }
        if letter.is_some() {
            is_open = opens;
        }
    }
}
