//! Letters as a table.

use redrive::dlq::{Letter, LetterState};

use crate::prelude::*;

/// A table of letters. It has a column for the state if a letter is not open.
pub(super) fn letter_table<'a>(letters: impl IntoIterator<Item = &'a Letter> + Clone) -> Table {
    let mut all = letters.clone().into_iter();
    let has_states = all.any(|letter| letter.state != LetterState::Open);
    let error = |letter: &Letter| match &*letter.error_message {
        "" => letter.error_class.clone(),
        message => format!("{}: {message}", letter.error_class),
    };
    table!(letter in letters => {
        Number "ID" => letter.id,
        Text "QUEUE" => letter.queue,
        Name "KIND" => letter.kind,
        Word "STATE" if has_states => letter.state,
        Word "CAUSE" => letter.cause,
        Number "AGE" => ago(letter.died_at),
        Text "ERROR" => error(letter),
    })
}
