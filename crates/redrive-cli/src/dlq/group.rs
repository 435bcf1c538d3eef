//! A failure group as text and as JSON.

use redrive::dlq::FailureGroup;

use crate::time::rfc3339;

/// The state in one word, which is `REGRESSION` if the group died again after it was resolved.
pub(super) fn state(group: &FailureGroup) -> &'static str {
    match group.is_regression() {
        true => "REGRESSION",
        false => group.state.as_str(),
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
        (0, 1..) => format!("redrive dlq list group={} state=quarantined", group.id),
        _ => format!("redrive dlq list group={}", group.id),
    }
}

/// A group as JSON, with the number of its letters that wait or match.
pub(super) fn group_json(group: &FailureGroup, letters: u64) -> serde_json::Value {
    serde_json::json!({
        "id": group.id.get(),
        "queue": group.queue,
        "kind": group.kind,
        "error_class": group.error_class,
        "title": group.title,
        "sample": group.sample,
        "newest": group.newest,
        "state": group.state.as_str(),
        "regression": group.is_regression(),
        "note": group.note,
        "owner": group.owner,
        "first_at": rfc3339(group.first_seen),
        "first_version": group.first_version,
        "last_at": rfc3339(group.last_seen),
        "resolved_at": group.resolved_at.map(rfc3339),
        "regressed_at": group.regressed_at.map(rfc3339),
        "regressions": group.regressions,
        "deaths": group.deaths,
        "letters": letters,
        "open": group.open,
        "redriving": group.redriving,
        "recovered": group.recovered,
        "discarded": group.discarded,
        "quarantined": group.quarantined,
        "deaths_by_hour": group.hours,
    })
}
