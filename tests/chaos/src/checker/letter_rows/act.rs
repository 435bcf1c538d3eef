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
    /// It kept its state: it was edited, not delivered or recorded in the audit.
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
            ("open", "open", 0) | ("quarantined", "quarantined", 0) => Some(Act::Stayed),
            _ => None,
        }
    }

    /// Returns what the letter must count after it.
    pub(super) fn counts(self, before: &LetterRow, after: &LetterRow) -> LetterCounts {
        let (was, is) = (before.counts, after.counts);
        // The payload may be another one: of a job that was edited.
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
                }
            }
            Act::Stayed => LetterCounts { edits, ..was },
            Act::SentBack | Act::Recovered | Act::Delivered | Act::Discarded | Act::Reopened => was,
        }
    }
}
