//! The syntax that the filters of letters and of jobs share: conditions separated by blanks, each a
//! field, an operator and a value.

use crate::dlq::filter::payload::{
    Comparison, PayloadCondition, Scalar, end_of_quotes, is_bare, quoted,
};
use crate::dlq::filter::value::{Text, Trouble, number, once, range};
use crate::error::{Error, Result};
use crate::job::duration::parse_duration;
use crate::job::milliseconds::milliseconds;

/// The longest filter text, in bytes.
pub(crate) const MAX_BYTES: usize = 64 * 1024;

/// Parses an age: `age>2h` is longer ago than two hours, `age<2h` less long ago.
pub(crate) fn age(
    older: &mut Option<i64>,
    newer: &mut Option<i64>,
    comparison: Comparison,
    text: &str,
) -> std::result::Result<(), Trouble> {
    let bound = match comparison {
        Comparison::Greater | Comparison::AtLeast => older,
        Comparison::Less | Comparison::AtMost => newer,
        Comparison::Equal | Comparison::NotEqual | Comparison::Contains => {
            return Err("only supports age> and age<".to_owned());
        }
    };
    let age = parse_duration(text).map_err(|_| {
        format!(
            "compares with `{}`, which is not an age such as 90s, 5m or 1d12h",
            text.escape_debug()
        )
    })?;
    once(bound, milliseconds(age), "age")
}

/// Calls `read` with each condition of a filter. An error names the condition.
pub(crate) fn each_condition(
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
pub(crate) fn one_condition(
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
pub(crate) fn parts<'a>(
    condition: &'a str,
    known: &str,
) -> std::result::Result<(&'a str, Comparison, &'a str), Trouble> {
    const OPERATORS: [(&str, Comparison); 7] = [
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::AtMost),
        (">=", Comparison::AtLeast),
        ("=", Comparison::Equal),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
        ("~", Comparison::Contains),
    ];
    let mut from = 0;
    while let Some(at) = condition[from..].find(['"', '!', '=', '<', '>', '~']) {
        let (key, rest) = condition.split_at(from + at);
        if rest.starts_with('"') {
            let end = end_of_quotes(rest).ok_or("has an unclosed quotation mark")?;
            from += at + end;
            continue;
        }
        let found = OPERATORS
            .iter()
            .find(|(operator, _)| rest.starts_with(operator));
        let (operator, comparison) = found.ok_or("has a `!` that is not followed by `=`")?;
        return Ok((key, *comparison, &rest[operator.len()..]));
    }
    Err(format!(
        "has no operator such as `=`; quote values with blanks; expected one of {known}"
    ))
}

/// Rejects every operator but `=`.
pub(crate) fn only_equal(key: &str, comparison: Comparison) -> std::result::Result<(), Trouble> {
    match comparison {
        Comparison::Equal => Ok(()),
        Comparison::NotEqual
        | Comparison::Less
        | Comparison::AtMost
        | Comparison::Greater
        | Comparison::AtLeast
        | Comparison::Contains => Err(format!(
            "does not support `{}`; write `{key}=`",
            comparison.as_str()
        )),
    }
}

/// The ids that a condition selects.
pub(crate) enum Ids {
    These(Vec<i64>),
    Range(Option<i64>, Option<i64>),
}

/// Parses the value of `id`: ids separated by commas, or a range.
pub(crate) fn ids(comparison: Comparison, value: &Text<'_>) -> std::result::Result<Ids, Trouble> {
    if comparison == Comparison::Equal && !value.text.contains("..") {
        let ids: std::result::Result<_, Trouble> =
            value.several()?.iter().map(|id| number(id)).collect();
        return Ok(Ids::These(ids?));
    }
    let (from, to) = range(comparison, value.text, i64::MIN, i64::MAX)?;
    Ok(Ids::Range(from, to))
}

/// Parses a range of a number that is never negative.
pub(crate) fn count_range(
    comparison: Comparison,
    value: &Text<'_>,
    key: &str,
) -> std::result::Result<(Option<u32>, Option<u32>), Trouble> {
    let (least, most) = (i64::from(i32::MIN), i64::from(i32::MAX));
    let (from, to) = range(comparison, value.text, least, most)?;
    let positive = |n: i64| u32::try_from(n).map_err(|_| format!("has a negative {key}"));
    Ok((
        from.map(positive).transpose()?,
        to.map(positive).transpose()?,
    ))
}

/// Sets the bounds of a range. Each may be given once.
pub(crate) fn bounds<T>(
    from: &mut Option<T>,
    to: &mut Option<T>,
    new_from: Option<T>,
    new_to: Option<T>,
    key: &str,
) -> std::result::Result<(), Trouble> {
    if let Some(bound) = new_from {
        once(from, bound, key)?;
    }
    match new_to {
        Some(bound) => once(to, bound, key),
        None => Ok(()),
    }
}

/// Returns whether a field is a place in the payload.
pub(crate) fn is_payload(key: &str) -> bool {
    key.starts_with("payload.") || key.starts_with("payload[")
}

/// Parses a condition on the payload, whose field is `payload.PATH`.
pub(crate) fn payload(
    key: &str,
    comparison: Comparison,
    value: &Text<'_>,
) -> std::result::Result<PayloadCondition, Trouble> {
    let path = key.strip_prefix("payload").unwrap_or(key);
    let scalar = match value.text.starts_with('"') {
        true => Scalar::Text(value.one()?),
        false => Scalar::bare(&value.one()?),
    };
    let path = path.strip_prefix('.').unwrap_or(path);
    PayloadCondition::new(path, comparison, scalar)
        .map_err(|error| format!("has an invalid value: {error}"))
}

/// Explains that a filter has no such field.
pub(crate) fn unknown_field(key: &str, known: &str) -> Trouble {
    match key {
        "payload" => {
            "names no payload path; write payload.PATH, such as payload.customer.id=42".to_owned()
        }
        "" => format!("names no field; expected one of {known}"),
        _ => format!("has an unknown field; expected one of {known}"),
    }
}

/// Writes a value, quoted if necessary.
pub(crate) fn value(text: &str) -> String {
    match is_bare(text) {
        true => text.to_owned(),
        false => quoted(text),
    }
}
