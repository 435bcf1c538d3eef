//! The acts that change a letter, and their effects on its counts. Pure.

use crate::db_trace::{LetterCounts, LetterRow};

/// A change of a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Its redriven job died again.
    Died,
    SentBack,
    Recovered,
    Delivered,
    Discarded,
    Reopened,
    /// The failure of a closed letter was captured again.
    CapturedAgain,
    /// It kept its state: it was edited, not delivered, seen again or recorded in the audit.
    Stayed,
}

impl Act {
    /// Returns what happened to a letter. `None`: no operation does this.
    pub(super) fn of(before: &LetterRow, after: &LetterRow) -> Option<Act> {
        let grown = after.counts.generation - before.counts.generation;
        match (&*before.state, &*after.state, grown) {
            ("redriving", "open" | "quarantined", 1) => Some(Act::Died),
            ("open", "redriving", 0) => Some(Act::SentBack),
            ("redriving", "recovered", 0) => Some(Act::Recovered),
            ("open", "recovered", 0) => Some(Act::Delivered),
            ("open" | "quarantined", "discarded", 0) => Some(Act::Discarded),
            ("discarded", "open" | "quarantined", 0) => Some(Act::Reopened),
            ("recovered" | "discarded", "open", 1) => Some(Act::CapturedAgain),
            ("open", "open", 0) | ("quarantined", "quarantined", 0) => Some(Act::Stayed),
            _ => None,
        }
    }

    /// Returns what the letter must count after it.
    pub(super) fn counts(self, before: &LetterRow, after: &LetterRow) -> LetterCounts {
        let (was, is) = (before.counts, after.counts);
        // The payload may be another one: of a job that was edited, or of another capture.
        let edits = is.edits.clamp(was.edits, was.edits + 1);
        let again = LetterCounts {
            generation: was.generation + 1,
            earlier: was.earlier + was.attempts,
            deaths: was.deaths + 1,
            edits,
            ..was
        };
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
                    attempts: is.attempts,
                    alike,
                    failed: was.failed + failure,
                    ..again
                }
            }
            Act::CapturedAgain => {
                let has_recovered = *before.state == *"recovered";
                let is_other = before.group != after.group && is.alike == 0;
                LetterCounts {
                    attempts: 0,
                    alike: match has_recovered || is_other {
                        true => 0,
                        false => was.alike,
                    },
                    failed: match has_recovered {
                        true => 0,
                        false => was.failed,
                    },
                    seen: was.seen + 1,
                    ..again
                }
            }
            Act::Stayed => LetterCounts {
                edits,
                seen: is.seen.clamp(was.seen, was.seen + 1),
                ..was
            },
            Act::SentBack | Act::Recovered | Act::Delivered | Act::Discarded | Act::Reopened => was,
        }
    }
}
