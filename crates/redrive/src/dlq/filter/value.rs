//! Parses the values of conditions: text, numbers and ranges.

use crate::dlq::filter::payload::{Comparison, end_of_quotes, is_bare, quoted};

/// The reason why a condition does not parse.
pub(super) type Trouble = String;

/// Parses one value, quoted or bare.
pub(super) fn one(text: &str) -> Result<String, Trouble> {
    let value = if text.starts_with('"') {
        unquoted(text)?
    } else if text.contains('"') {
        return Err("has a quotation mark inside a value; quote the whole value".to_owned());
    } else {
        text.to_owned()
    };
    if value.is_empty() {
        return Err("has no value".to_owned());
    }
    Ok(value)
}

/// Parses values separated by commas.
pub(super) fn several(text: &str) -> Result<Vec<String>, Trouble> {
    let mut values = Vec::new();
    let mut rest = text;
    loop {
        let end = match rest.starts_with('"') {
            true => end_of_quotes(rest).ok_or("has an unclosed quotation mark")?,
            false => rest.find(',').unwrap_or(rest.len()),
        };
        values.push(one(&rest[..end])?);
        rest = match rest[end..].strip_prefix(',') {
            Some(after) => after,
            None if rest.len() == end => return Ok(values),
            None => {
                return Err("has text after its quotes; separate values with commas".to_owned());
            }
        };
    }
}

pub(super) fn unquoted(text: &str) -> Result<String, Trouble> {
    match end_of_quotes(text) {
        None => Err("has an unclosed quotation mark".to_owned()),
        Some(end) if end < text.len() => Err("has text after its quotes".to_owned()),
        Some(_) => match serde_json::from_str::<String>(text) {
            Ok(value) if value.contains('\0') => Err("contains NUL".to_owned()),
            Ok(value) => Ok(value),
            Err(_) => Err("has quotes around an invalid JSON string".to_owned()),
        },
    }
}

/// Parses an integer.
pub(super) fn number(text: &str) -> Result<i64, Trouble> {
    text.parse().map_err(|_| {
        format!(
            "compares with `{}`, which is not a whole number",
            text.escape_debug()
        )
    })
}

/// Returns the ends of the range of numbers that satisfy the comparison: `from`, `to` or `not`.
pub(super) fn range(
    comparison: Comparison,
    text: &str,
    least: i64,
    most: i64,
) -> Result<Vec<(&'static str, i64)>, Trouble> {
    let bounded = |text: &str| match number(text)? {
        number if (least..=most).contains(&number) => Ok(number),
        number => Err(format!(
            "compares with {number}, which is not between {least} and {most}"
        )),
    };
    if let (Comparison::Equal, Some((from, to))) = (comparison, text.split_once("..")) {
        return match (bounded(from)?, bounded(to)?) {
            (from, to) if from <= to => Ok(vec![("from", from), ("to", to)]),
            (from, to) => Err(format!("ends at {to} before it begins at {from}")),
        };
    }
    let number = bounded(text)?;
    match comparison {
        Comparison::Equal => Ok(vec![("from", number), ("to", number)]),
        Comparison::NotEqual => Ok(vec![("not", number)]),
        Comparison::AtLeast => Ok(vec![("from", number)]),
        Comparison::AtMost => Ok(vec![("to", number)]),
        Comparison::Greater if number < most => Ok(vec![("from", number + 1)]),
        Comparison::Less if number > least => Ok(vec![("to", number - 1)]),
        Comparison::Greater | Comparison::Less => Err("matches nothing".to_owned()),
        Comparison::Contains => {
            Err("does not support `~`; use =, =FROM..TO, !=, <, <=, > or >=".to_owned())
        }
    }
}

/// Writes a value, quoted if necessary.
pub(super) fn written(text: &str) -> String {
    match is_bare(text) {
        true => text.to_owned(),
        false => quoted(text),
    }
}
