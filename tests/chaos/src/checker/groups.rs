//! Checks what the policies of queues promise about groups: order, limits, held and diverted groups, and turns.
//!
//! The order of the trace is the order of the turns of a group: a claim that takes a turn waits until the
//! transaction that ended the previous one has committed.

mod events;
mod fair;
mod ordered;
mod runs;
mod slots;

use std::collections::BTreeMap;

use redrive::GroupPolicy;

use crate::checker::{Findings, Run};
use crate::role::groups::policy_of;

use events::GroupEvent;

/// The events of each group, by queue and group.
type Groups<'a> = BTreeMap<(&'a str, &'a str), Vec<GroupEvent<'a>>>;

pub(super) fn check(run: &Run<'_>, findings: &mut Findings) {
    let groups = events::by_group(run.records);
    let mut fair: BTreeMap<&str, Vec<&GroupEvent<'_>>> = BTreeMap::new();
    for (&(queue, _), events) in &groups {
        match policy_of(queue) {
            Some(GroupPolicy::Ordered(death)) => {
                ordered::check(events, death, &run.calls, findings);
            }
            Some(GroupPolicy::Fair) => fair.entry(queue).or_default().extend(events),
            _ => {}
        }
    }
    for events in fair.values_mut() {
        events.sort_by_key(|event| event.seq);
        fair::check(events, findings);
    }
    slots::check(run, &groups, findings);
    runs::check(run, findings);
}
