//! Parses the values of conditions: text, numbers and ranges.

use crate::dlq::filter::payload::{Comparison, end_of_quotes};

/// The reason why a condition does not parse.
pub(crate) type Trouble = String;

/// The text after the operator.
pub(crate) struct Text<'a> {
    pub(crate) text: &'a str,
}

impl Text<'_> {
    /// Parses one value, quoted or bare.
    pub(crate) fn one(&self) -> Result<String, Trouble> {
        let value = if self.text.starts_with('"') {
            unquoted(self.text)?
        } else if self.text.contains('"') {
            return Err("has a quotation mark inside a value; quote the whole value".to_owned());
        } else {
            self.text.to_owned()
        };
        if value.is_empty() {
            return Err("has no value".to_owned());
        }
        Ok(value)
    }

    /// Parses values separated by commas.
    pub(crate) fn several(&self) -> Result<Vec<String>, Trouble> {
        let mut values = Vec::new();
        let mut rest = self.text;
        loop {
            let end = match rest.starts_with('"') {
                true => end_of_quotes(rest).ok_or("has an unclosed quotation mark")?,
                false => rest.find(',').unwrap_or(rest.len()),
            };
            values.push(Text { text: &rest[..end] }.one()?);
            rest = match rest[end..].strip_prefix(',') {
                Some(after) => after,
                None if rest.len() == end => return Ok(values),
                None => {
                    return Err("has text after its quotes; separate values with commas".to_owned());
                }
            };
        }
    }
}

fn unquoted(text: &str) -> Result<String, Trouble> {
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
pub(crate) fn number(text: &str) -> Result<i64, Trouble> {
    text.parse().map_err(|_| {
        format!(
            "compares with `{}`, which is not a whole number",
            text.escape_debug()
        )
    })
}

/// Returns the lowest and highest number that satisfy the comparison.
pub(crate) fn range(
    comparison: Comparison,
    text: &str,
    least: i64,
    most: i64,
) -> Result<(Option<i64>, Option<i64>), Trouble> {
    let bounded = |text: &str| match number(text)? {
        number if (least..=most).contains(&number) => Ok(number),
        number => Err(format!("compares with {number}, which is too large")),
    };
    if let (Comparison::Equal, Some((from, to))) = (comparison, text.split_once("..")) {
        return match (bounded(from)?, bounded(to)?) {
            (from, to) if from <= to => Ok((Some(from), Some(to))),
            (from, to) => Err(format!("ends at {to} before it begins at {from}")),
        };
    }
    let number = bounded(text)?;
    match comparison {
        Comparison::Equal => Ok((Some(number), Some(number))),
        Comparison::AtLeast => Ok((Some(number), None)),
        Comparison::AtMost => Ok((None, Some(number))),
        Comparison::Greater if number < most => Ok((Some(number + 1), None)),
        Comparison::Less if number > least => Ok((None, Some(number - 1))),
        Comparison::Greater | Comparison::Less => Err("matches nothing".to_owned()),
        Comparison::NotEqual | Comparison::Contains => Err(format!(
            "does not support `{}`; use =, =FROM..TO, <, <=, > or >=",
            comparison.as_str()
        )),
    }
}

/// Rejects a field that is given twice.
pub(crate) fn once<T>(field: &mut Option<T>, value: T, key: &str) -> Result<(), Trouble> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!(
            "repeats `{key}`; separate several values with commas"
        )),
    }
}
