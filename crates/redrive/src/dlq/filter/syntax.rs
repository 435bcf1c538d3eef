//! The syntax that the filters of letters and of jobs share: conditions separated by blanks, each a
//! field, an operator and a value.

use crate::dlq::filter::payload::{Comparison, PayloadCondition, bare, end_of_quotes, quoted};
use crate::dlq::filter::value::{Trouble, one, unquoted};
use crate::error::{Error, Result};

/// The longest filter text, in bytes.
pub(super) const MAX_BYTES: usize = 64 * 1024;

/// Calls `read` with each condition of a filter. An error names the condition.
pub(super) fn each_condition(
    text: &str,
    mut read: impl FnMut(&str) -> std::result::Result<(), Trouble>,
) -> Result<()> {
    check(text)?;
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (condition, after) = next_condition(rest);
        read(condition).map_err(|why| wrong(condition, &why))?;
        rest = after.trim_start();
    }
    Ok(())
}

/// Calls `read` with a text that is exactly one condition.
pub(super) fn one_condition(
    text: &str,
    read: impl FnOnce(&str) -> std::result::Result<(), Trouble>,
) -> Result<()> {
    check(text)?;
    let condition = text.trim();
    read(condition).map_err(|why| wrong(condition, &why))
}

fn wrong(condition: &str, why: &str) -> Error {
    Error::invalid(format!(
        "the condition `{}` of the filter {why}",
        condition.escape_debug()
    ))
}

/// Rejects text that is too long or that PostgreSQL cannot store.
fn check(text: &str) -> Result<()> {
    if text.len() > MAX_BYTES {
        return Err(Error::invalid(format!(
            "the filter is longer than {MAX_BYTES} bytes"
        )));
    }
    if text.contains('\0') {
        return Err(Error::invalid("the filter contains NUL"));
    }
    Ok(())
}

/// Splits off the first condition, up to a blank outside quotes.
fn next_condition(text: &str) -> (&str, &str) {
    let mut from = 0;
    while let Some(at) = text[from..].find(|c: char| c == '"' || c.is_whitespace()) {
        let at = from + at;
        match end_of_quotes(&text[at..]) {
            Some(end) if text[at..].starts_with('"') => from = at + end,
            // An unclosed quote extends to the end; parsing the condition reports
            // it.
            None if text[at..].starts_with('"') => break,
            Some(_) | None => return text.split_at(at),
        }
    }
    (text, "")
}

/// Splits a condition at its first operator outside quotes.
/// `known` lists the fields for the error.
pub(super) fn parts<'a>(
    condition: &'a str,
    known: &str,
) -> std::result::Result<(&'a str, Comparison, &'a str), Trouble> {
    let mut from = 0;
    while let Some(at) = condition[from..].find(['"', '!', '=', '<', '>', '~']) {
        let (key, rest) = condition.split_at(from + at);
        if rest.starts_with('"') {
            let end = end_of_quotes(rest).ok_or("has an unclosed quotation mark")?;
            from += at + end;
            continue;
        }
        // Those of two characters come first.
        let found = (Comparison::ALL.into_iter()).find(|known| rest.starts_with(known.as_str()));
        let comparison = found.ok_or("has a `!` that is not followed by `=`")?;
        return Ok((key, comparison, &rest[comparison.as_str().len()..]));
    }
    Err(format!(
        "has no operator such as `=`; quote values with blanks; expected one of {known}"
    ))
}

/// Returns the path of a field that is a place in the payload.
pub(in crate::dlq) fn payload_path(key: &str) -> Option<&str> {
    let path = key.strip_prefix("payload")?;
    let element = || path.starts_with('[').then_some(path);
    path.strip_prefix('.').or_else(element)
}

/// Parses a condition on the value at this path of the payload.
pub(super) fn payload(
    path: &str,
    comparison: Comparison,
    value: &str,
) -> std::result::Result<PayloadCondition, Trouble> {
    let json = if value.starts_with('"') {
        // It may be empty.
        quoted(&unquoted(value)?)
    } else if comparison == Comparison::Contains {
        quoted(&one(value)?)
    } else {
        bare(&one(value)?)
    };
    PayloadCondition::new(path, comparison, json)
        .map_err(|error| format!("has an invalid value: {error}"))
}
