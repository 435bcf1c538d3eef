//! Letters counted by a property.

use redrive::dlq::{LetterFilter, PropertyCount};

use crate::prelude::*;

/// Prints how many letters have each value. Returns `None` if no letter matches.
pub(super) fn counts(
    filter: &LetterFilter,
    by: &str,
    limit: u64,
    cx: &mut Context<'_>,
) -> Result<Option<Ending>> {
    let db = &cx.database()?;
    let all = db.dlq().count_by(filter, by)?;
    if all.is_empty() {
        return Ok(None);
    }
    let shown = &all[..all.len().min(usize::try_from(limit).unwrap_or(usize::MAX))];
    let json =
        |count: &PropertyCount| json!(object!(count => by = by, value, letters, first_at, last_at));
    let table = table!(count in shown => {
        Number "LETTERS" => grouped(count.letters),
        Number "FIRST" => ago(count.first_at),
        Number "LAST" => ago(count.last_at),
        Text "VALUE" => count.value.as_deref().unwrap_or("(none)"),
    });
    cx.items(shown, json, &table)?;
    if all.len() > shown.len() {
        cx.say_more("values", &format!("--limit {}", all.len()))?;
    }
    Ok(Some(Ending::Done))
}
