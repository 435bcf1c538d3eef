//! Letters as a table.

use redrive::dlq::{Letter, LetterFilter, LetterState};

use crate::bulk::SAMPLE;
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

/// A table of the first letters that a dry run would change, in the order in which it takes them: that of the ids.
pub(super) fn letter_sample(
    selection: &Bulk,
    filter: &LetterFilter,
    affected: u64,
    is_shown: impl Fn(&Letter) -> bool,
    db: &Database,
) -> Result<Option<Table>> {
    if !selection.is_dry_run() {
        return Ok(None);
    }
    let mut letters = Vec::new();
    let sample = filter.clone().limit(u64::from(SAMPLE).min(affected));
    db.dlq().for_each(&sample, |letter| -> Result<()> {
        letters.extend(is_shown(letter).then(|| letter.clone()));
        Ok(())
    })?;
    Ok(Some(letter_table(&letters)))
}
