//! Failure groups: by conditions on their letters, and as text, in a table and as JSON.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use redrive::dlq::{FailureGroup, GroupFilter, GroupId, GroupState, LetterFilter, LetterState};

use crate::prelude::*;
use crate::terminal::sparkline;

/// The most groups that conditions select.
pub(super) const MAX_GROUPS: u64 = 10_000;

/// The state, with `REGRESSION` if the group died again after it was resolved.
pub(super) fn state(group: &FailureGroup) -> &'static str {
    match (group.is_regression, group.state) {
        (true, GroupState::Acknowledged) => "acknowledged REGRESSION",
        (true, GroupState::Open | GroupState::Resolved | GroupState::Ignored | _) => "REGRESSION",
        (false, state) => state.as_str(),
    }
}

/// The error class and the message of the newest waiting letter.
pub(super) fn failure(group: &FailureGroup) -> String {
    match &*group.newest {
        "" => group.error_class.clone(),
        message => format!("{}: {message}", group.error_class),
    }
}

/// The open and quarantined letters.
pub(super) fn waiting(group: &FailureGroup) -> u64 {
    group.open + group.quarantined
}

/// The command that lists the letters of a group: the open ones, or the quarantined ones if none
/// is open.
pub(super) fn list_of(group: &FailureGroup) -> String {
    match (group.open, group.quarantined) {
        (0, 1..) => format!("{Me} dlq list group={} state=quarantined", group.id),
        _ => format!("{Me} dlq list group={}", group.id),
    }
}

/// A group as JSON, with the number of its letters that wait or match.
pub(super) fn group_json(group: &FailureGroup, letters: u64) -> impl Serialize {
    object!(group =>
        id, queue, kind, error_class, title, newest_message = &group.newest, state,
        regression = group.is_regression, note, owner, first_at = group.first_seen.json(),
        first_version, last_at = group.last_seen.json(), resolved_at,
        deaths, letters = letters, open, redriving, recovered, discarded, quarantined,
        deaths_by_hour = &group.hours,
    )
}

/// How many letters of a group match, and the group.
pub(super) type MatchingGroup = (u64, FailureGroup);

/// Those of the letters that wait, unless their conditions name a state.
pub(super) fn of_waiting(letters: LetterFilter) -> LetterFilter {
    match letters.named_states() {
        Some(_) => letters,
        None => letters.states([LetterState::Open, LetterState::Quarantined]),
    }
}

/// Returns the groups that match `groups` and have letters that match `letters`, most letters
/// first.
pub(super) fn matching(
    letters: &LetterFilter,
    groups: GroupFilter,
    db: &Database,
) -> Result<Vec<MatchingGroup>> {
    let counts = db.dlq().count_by(letters, "group")?;
    let counts: BTreeMap<GroupId, u64> = counts
        .iter()
        .filter_map(|count| Some((count.value.as_ref()?.parse().ok()?, count.letters)))
        .collect();
    let groups = groups.ids(counts.keys().copied()).limit(MAX_GROUPS);
    let groups = db.dlq().groups().list(&groups)?.into_iter();
    let mut matching: Vec<MatchingGroup> = groups
        .map(|group| (counts.get(&group.id).copied().unwrap_or_default(), group))
        .collect();
    matching.sort_by_key(|(letters, _)| Reverse(*letters));
    Ok(matching)
}

/// A table of groups, each with a number of letters. It has a column for the kind if kinds differ.
pub(super) fn group_table(groups: &[MatchingGroup]) -> Table {
    let has_kinds = groups.windows(2).any(|two| two[0].1.kind != two[1].1.kind);
    // A table joins spaces, so an hour without a death needs a visible character.
    let hours = |group: &FailureGroup| sparkline(&group.hours).replace(' ', "\u{b7}");
    table!((letters, group) in groups => {
        Number "GROUP" => group.id,
        Text "QUEUE" => group.queue,
        Name "KIND" if has_kinds => group.kind,
        Text "STATE" => state(group),
        Number "LETTERS" => grouped(*letters),
        Number "LAST" => ago(group.last_seen),
        Bars "BY HOUR" => hours(group),
        Text "FAILURE" => failure(group),
    })
}
