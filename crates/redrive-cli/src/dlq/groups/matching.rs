//! Groups by conditions on their letters.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use redrive::Database;
use redrive::dlq::{GroupFilter, GroupId, LetterFilter, LetterProperty, LetterState};

use crate::dlq::group::MatchingGroup;
use crate::error::Result;

/// The most groups that conditions select.
pub(super) const MAX_GROUPS: u64 = 10_000;

/// Those of the letters that wait, unless their conditions name a state.
pub(super) fn waiting(letters: LetterFilter) -> LetterFilter {
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
    let counts = db.dlq().count_by(letters, &LetterProperty::GROUP)?;
    let counts: BTreeMap<GroupId, u64> = counts
        .iter()
        .filter_map(|count| Some((count.value.as_ref()?.parse().ok()?, count.letters)))
        .collect();
    let groups = groups.ids(counts.keys().copied()).limit(MAX_GROUPS);
    let mut matching: Vec<MatchingGroup> = db
        .dlq()
        .groups()
        .list(&groups)?
        .into_iter()
        .map(|group| MatchingGroup {
            letters: counts.get(&group.id).copied().unwrap_or_default(),
            group,
        })
        .collect();
    matching.sort_by_key(|matching| Reverse(matching.letters));
    Ok(matching)
}
