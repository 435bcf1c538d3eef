//! Checks what the policies of queues promise about groups: order, limits, and held and diverted groups.
//!
//! The order of the trace is the order of the turns of a group: a claim that takes a turn waits until the
//! transaction that ended the previous one has committed.

mod events;
mod ordered;
mod runs;

use std::collections::{BTreeMap, BTreeSet};

use redrive::GroupPolicy;

use crate::checker::requests::Call;
use crate::checker::{Findings, Rule, Run};
use crate::db_trace::Turn;
use crate::history::Operation;
use crate::role::groups::policy_of;

use events::GroupEvent;

/// The events of each group, by queue and group.
type Groups<'a> = BTreeMap<(&'a str, &'a str), Vec<GroupEvent<'a>>>;

pub(super) fn check(run: &Run<'_>, findings: &mut Findings) {
    let groups = events::by_group(run.records);
    for (&(queue, _), events) in &groups {
        if let Some(GroupPolicy::Ordered(death)) = policy_of(queue) {
            ordered::check(events, death, &run.calls, findings);
        }
    }
    runs::check(run, findings);
    check_releases(run, findings);
}

/// Checks that a release that a client got acknowledged ended the turn of the letter.
fn check_releases(run: &Run<'_>, findings: &mut Findings) {
    let slots = run.records.slots.iter();
    let freed = slots.filter(|slot| slot.change == Turn::Freed);
    let freed: BTreeSet<(&str, i64)> = freed.map(|slot| (&*slot.process, slot.job)).collect();
    let what = "released it, but it kept its turn";
    let demanded = (Operation::Release, Rule::GroupHold, what);
    let has_freed = |call: &Call<'_>, letter: i64| freed.contains(&(call.process, letter));
    run.check_answers(demanded, has_freed, findings);
}
