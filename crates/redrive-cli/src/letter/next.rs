//! The commands to type next for a letter, by its state. Pure.

use redrive::dlq::{Letter, LetterState};

/// Returns the commands to type next.
pub(super) fn commands(letter: &Letter) -> Vec<String> {
    let id = letter.id;
    let group = letter.group;
    match letter.state {
        LetterState::Open => vec![
            format!("redrive dlq list group={group}"),
            format!("redrive dlq redrive {id}"),
            format!("redrive dlq discard {id} --reason TEXT"),
        ],
        LetterState::Quarantined => vec![
            format!("redrive dlq list group={group} state=quarantined"),
            format!("redrive dlq redrive {id} --force --reason TEXT"),
            format!("redrive dlq discard {id} --reason TEXT"),
        ],
        LetterState::Redriving => vec![format!("redrive job show {id}")],
        LetterState::Discarded => vec![format!("redrive dlq reopen {id}")],
        LetterState::Recovered | _ => Vec::new(),
    }
}
