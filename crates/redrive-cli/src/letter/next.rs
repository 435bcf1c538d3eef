//! The commands to type next for a letter, by its state. Pure.

use redrive::dlq::{Letter, LetterState};

use crate::name::Me;

/// Returns the commands to type next.
pub(super) fn commands(letter: &Letter) -> Vec<String> {
    let id = letter.id;
    let group = letter.group;
    match letter.state {
        LetterState::Open => vec![
            format!("{Me} dlq list group={group}"),
            format!("{Me} dlq redrive {id}"),
            format!("{Me} dlq discard {id} --reason TEXT"),
        ],
        LetterState::Quarantined => vec![
            format!("{Me} dlq list group={group} state=quarantined"),
            format!("{Me} dlq redrive {id} --force --reason TEXT"),
            format!("{Me} dlq discard {id} --reason TEXT"),
        ],
        LetterState::Redriving => vec![format!("{Me} job show {id}")],
        LetterState::Discarded => vec![format!("{Me} dlq reopen {id}")],
        LetterState::Recovered | _ => Vec::new(),
    }
}
