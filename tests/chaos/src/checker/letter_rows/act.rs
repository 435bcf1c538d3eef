//! The acts that change a letter, and their effects on its row. Pure.

use crate::db_trace::{LetterCounts, LetterRow};

/// A change of a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Its redriven job died again.
    Died,
    SentBack,
    Recovered,
    Delivered,
    NotDelivered,
    Discarded,
    Reopened,
    Edited,
    /// The operation that cancelled its waiting job is recorded, in the transaction of its death.
    Audited,
    /// After an edit that restores an earlier version, the letter is as redacted as that one.
    RedactionRestored,
    /// The failure of an open letter was captured again.
    Seen,
    /// The failure of a closed letter was captured again.
    CapturedAgain,
}

/// The columns that a death may change, and the further ones that another capture may.
const BY_DEATH: &str = "state cause error_class error_message error_detail payload raw priority attempts earlier_attempts \
    max_attempts generation crashes history worker_id host version unique_key headers group_key pid \
    run_ms group_id detail_id failure_key died_at changed_at deaths alike failed_redrives events \
    audit_id redacted edits";
const BY_CAPTURE: &str = "queue kind content_type seen discard_reason";

impl Act {
    /// Returns what happened to a letter. `None`: no operation does this.
    pub(super) fn of(before: &LetterRow, after: &LetterRow) -> Option<Act> {
        let grown = after.counts.generation - before.counts.generation;
        let has = |column: &str| after.columns.iter().any(|changed| changed == column);
        match (&*before.state, &*after.state, grown) {
            ("redriving", "open" | "quarantined", 1) => Some(Act::Died),
            ("open", "redriving", 0) => Some(Act::SentBack),
            ("redriving", "recovered", 0) => Some(Act::Recovered),
            ("open", "recovered", 0) => Some(Act::Delivered),
            ("open" | "quarantined", "discarded", 0) => Some(Act::Discarded),
            ("discarded", "open" | "quarantined", 0) => Some(Act::Reopened),
            ("recovered" | "discarded", "open", 1) => Some(Act::CapturedAgain),
            ("open", "open", 0) | ("quarantined", "quarantined", 0) => {
                if has("edits") {
                    Some(Act::Edited)
                } else if has("seen") {
                    Some(Act::Seen)
                } else if has("redacted") {
                    Some(Act::RedactionRestored)
                } else if has("audit_id") && &*after.cause == "manual" && after.tx == before.tx {
                    Some(Act::Audited)
                } else {
                    has("events").then_some(Act::NotDelivered)
                }
            }
            _ => None,
        }
    }

    /// Returns the columns that it must change, and those that it may.
    fn columns(self) -> (&'static str, &'static str) {
        match self {
            Act::Died => (
                "state generation died_at changed_at deaths events",
                BY_DEATH,
            ),
            Act::CapturedAgain => (
                "state generation died_at changed_at deaths events seen",
                BY_DEATH,
            ),
            Act::SentBack | Act::Delivered => {
                ("state changed_at events", "run_id run_ordinal policy_id")
            }
            Act::Recovered => ("state changed_at", ""),
            Act::NotDelivered => ("events", ""),
            Act::Discarded | Act::Reopened => {
                ("state changed_at events audit_id discard_reason", "")
            }
            Act::Edited => ("edits changed_at events audit_id", "payload raw redacted"),
            Act::RedactionRestored => ("redacted", ""),
            Act::Audited => ("audit_id", ""),
            Act::Seen => ("seen", ""),
        }
    }

    /// Returns the columns that it must change and did not, and those that it changed and may not.
    pub(super) fn wrong_columns(self, changed: &[String]) -> Vec<&str> {
        let (must, may) = self.columns();
        let is_in = |list: &str, column: &str| list.split(' ').any(|one| one == column);
        let is_allowed = |column: &str| {
            is_in(must, column)
                || is_in(may, column)
                || self == Act::CapturedAgain && is_in(BY_CAPTURE, column)
                // When a consumer may claim it follows from its state.
                || is_in(must, "state") && column == "retry_after"
        };
        let missing = must
            .split(' ')
            .filter(|must| !changed.iter().any(|column| column == must));
        let extra = changed
            .iter()
            .map(String::as_str)
            .filter(|column| !is_allowed(column));
        missing.chain(extra).collect()
    }

    /// Returns what the letter must count after it.
    pub(super) fn counts(self, before: &LetterRow, after: &LetterRow) -> LetterCounts {
        let (was, is) = (before.counts, after.counts);
        // The payload may be another one: of a job that was edited, or of another capture.
        let edits = is.edits.clamp(was.edits, was.edits + 1);
        match self {
            Act::Died => {
                let is_diverted = *after.cause == *"diverted";
                let failure = i32::from(before.policy.is_none() && !is_diverted);
                let alike = match (before.group == after.group || is_diverted, is.alike) {
                    // Another group may have the same failure under another name.
                    (false, 0) => 0,
                    _ => was.alike + failure,
                };
                LetterCounts {
                    generation: was.generation + 1,
                    attempts: is.attempts,
                    earlier: was.earlier + was.attempts,
                    deaths: was.deaths + 1,
                    alike,
                    failed: was.failed + failure,
                    edits,
                    ..was
                }
            }
            Act::CapturedAgain => {
                let has_recovered = *before.state == *"recovered";
                let is_other = before.group != after.group && is.alike == 0;
                LetterCounts {
                    generation: was.generation + 1,
                    attempts: 0,
                    earlier: was.earlier + was.attempts,
                    deaths: was.deaths + 1,
                    alike: match has_recovered || is_other {
                        true => 0,
                        false => was.alike,
                    },
                    failed: match has_recovered {
                        true => 0,
                        false => was.failed,
                    },
                    edits,
                    seen: was.seen + 1,
                }
            }
            Act::Edited => LetterCounts {
                edits: was.edits + 1,
                ..was
            },
            Act::Seen => LetterCounts {
                seen: was.seen + 1,
                ..was
            },
            _ => was,
        }
    }
}
