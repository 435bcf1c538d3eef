//! Parses the values of conditions.

use serde_json::{Deserializer, Value};

/// The reason why a condition does not parse.
pub(super) type Trouble = String;

/// Parses one value, quoted or bare.
pub(super) fn one(text: &str) -> Result<String, Trouble> {
    match first(text, &[])? {
        (value, "") => Ok(value),
        _ => Err("has text after its quotes".to_owned()),
    }
}

/// Parses values separated by commas.
pub(super) fn several(text: &str) -> Result<Vec<String>, Trouble> {
    let (value, mut rest) = first(text, &[','])?;
    let mut values = vec![value];
    while let Some(after) = rest.strip_prefix(',') {
        let (value, after) = first(after, &[','])?;
        values.push(value);
        rest = after;
    }
    match rest {
        "" => Ok(values),
        _ => Err("has text after its quotes; separate values with commas".to_owned()),
    }
}

/// Parses the value at the start of a text, quoted or up to one of `ends`. Returns it with what follows.
fn first<'a>(text: &'a str, ends: &[char]) -> Result<(String, &'a str), Trouble> {
    if text.starts_with('"') {
        return Ok(unquoted(text)?);
    }
    match text.split_at(text.find(ends).unwrap_or(text.len())) {
        ("", _) => Err("has no value".to_owned()),
        (bare, _) if bare.contains('"') => {
            Err("has a quotation mark inside a value; quote the whole value".to_owned())
        }
        (bare, rest) => Ok((bare.to_owned(), rest)),
    }
}

/// Parses the quoted text at the start of a text. Returns it with what follows.
pub(super) fn unquoted(text: &str) -> Result<(String, &str), &'static str> {
    let mut strings = Deserializer::from_str(text).into_iter::<String>();
    let value = strings.next().and_then(Result::ok);
    let value = value.filter(|value| !value.contains('\0'));
    let value =
        value.ok_or("has quotes that do not close, or are not around a JSON string without NUL")?;
    Ok((value, &text[strings.byte_offset()..]))
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

/// Writes a value, quoted if necessary.
pub(super) fn written(text: &str) -> String {
    match is_bare(text) {
        true => text.to_owned(),
        false => quoted(text),
    }
}

/// Returns whether a name or a value may contain the character without quotes.
pub(super) fn is_plain(character: char) -> bool {
    character.is_alphanumeric() || "_-".contains(character)
}

/// Returns whether the text needs no quotes.
pub(super) fn is_bare(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| is_plain(c) || "./:@+".contains(c))
}

/// Quotes a text. JSON, jsonpath and the filter language read it alike.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
