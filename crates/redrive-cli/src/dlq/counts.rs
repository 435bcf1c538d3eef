//! Letters counted by a property.

use redrive::dlq::{LetterFilter, LetterProperty, PropertyCount};

use crate::prelude::*;

/// Prints how many letters have each value, and `list` with a condition on the most frequent one.
/// Returns `None` if no letter matches.
pub(super) fn counts(
    filter: &LetterFilter,
    property: &LetterProperty,
    limit: u64,
    list: &str,
    cx: &mut Context<'_>,
) -> Result<Option<Ending>> {
    let db = &cx.database()?;
    let all = db.dlq().count_by(filter, property)?;
    if all.is_empty() {
        return Ok(None);
    }
    let shown = &all[..all.len().min(usize::try_from(limit).unwrap_or(usize::MAX))];
    let by = property.to_string();
    let json = |count: &PropertyCount| {
        json!(object!(count => by = &by, value, letters, first_at, last_at))
    };
    let table = table!(count in shown => {
        Number "LETTERS" => grouped(count.letters),
        Number "FIRST" => ago(count.first_at),
        Number "LAST" => ago(count.last_at),
        Text "VALUE" => count.value.as_deref().unwrap_or("(none)"),
    });
    cx.items(shown, json, &table)?;
    let mut conditions = all
        .iter()
        .filter_map(|count| property.condition(count.value.as_ref()?));
    if let Some(condition) = conditions.next().filter(|_| !cx.global.json) {
        // A filter cannot name a property twice.
        let narrower = LetterFilter::parse_condition(&condition);
        if narrower.and_then(|of| filter.clone().and(of)).is_ok() {
            writeln!(cx.out)?;
            cx.print_command(&format!("{list} {}", quoted(&condition)))?;
        }
    }
    if all.len() > shown.len() {
        cx.say_more("values", &format!("--limit {}", all.len()))?;
    }
    Ok(Some(Ending::Done))
}
