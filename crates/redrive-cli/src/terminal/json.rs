//! JSON for programs, one object per line, and for people, indented.

use std::fmt;
use std::io::{self, Write};
use std::iter;

use serde::Serialize;
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::escape;
use crate::error::Result;

/// The levels that are indented. A value that is nested deeper stays as it is written.
const MAX_DEPTH: usize = 20;

/// Writes an object as one line of JSON.
pub(crate) fn json_line(out: &mut dyn Write, object: &impl Serialize) -> Result<()> {
    let line = serde_json::to_vec(object).map_err(io::Error::from)?;
    Ok(out.write_all(&as_line(line))?)
}

/// Returns JSON as one line with a line break at its end. A payload may contain line breaks, but only between its
/// values: in a string they are escaped.
pub(crate) fn as_line(mut json: Vec<u8>) -> Vec<u8> {
    for byte in &mut json {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    json.push(b'\n');
    json
}

/// Indents JSON and sorts the members of objects. Numbers and strings stay as written, except for dangerous
/// characters.
pub(crate) fn pretty(json: &str) -> String {
    indented(json.trim(), 0)
}

/// Indents a value that is so deep in others.
fn indented(json: &str, depth: usize) -> String {
    if depth == MAX_DEPTH {
        return escaped(json);
    }
    let line = format!("\n{}", "  ".repeat(depth));
    let inner = format!("{line}  ");
    let enclosed = |open: char, parts: Vec<String>, close: char| match parts.is_empty() {
        true => format!("{open}{close}"),
        false => format!(
            "{open}{inner}{}{line}{close}",
            parts.join(&format!(",{inner}"))
        ),
    };
    if let Ok(mut members) = members(json) {
        members.sort_by(|(one, _), (other, _)| one.cmp(other));
        let members = members.iter().map(|(name, value)| {
            // Serializing a string cannot fail.
            let name = escaped(&serde_json::to_string(name).unwrap_or_default());
            format!("{name}: {}", indented(value.get(), depth + 1))
        });
        enclosed('{', members.collect(), '}')
    } else if let Ok(items) = serde_json::from_str::<Vec<Box<RawValue>>>(json) {
        let items = items.iter().map(|item| indented(item.get(), depth + 1));
        enclosed('[', items.collect(), ']')
    } else {
        escaped(json)
    }
}

/// Returns the members of an object in their order, those with the same name too.
fn members(json: &str) -> serde_json::Result<Vec<(String, Box<RawValue>)>> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let members = reader.deserialize_map(Members)?;
    reader.end()?;
    Ok(members)
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, Box<RawValue>)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(
        self,
        mut map: A,
    ) -> std::result::Result<Self::Value, A::Error> {
        iter::from_fn(|| map.next_entry::<String, Box<RawValue>>().transpose()).collect()
    }
}

/// Escapes dangerous characters, which are in strings if this is JSON.
fn escaped(json: &str) -> String {
    escape::escaped(json, |character| {
        let mut units = [0; 2];
        // JSON escapes are UTF-16: a character may need two.
        let units = character.encode_utf16(&mut units).iter();
        units.fold(String::new(), |text, unit| text + &format!("\\u{unit:04x}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_and_its_values_stay_as_written() {
        let indented = pretty(r#"{"a": [1e400, "x, {\"y\": 1}"], "b": {}, "c": [ ]}"#);
        assert_eq!(
            indented,
            "{\n  \"a\": [\n    1e400,\n    \"x, {\\\"y\\\": 1}\"\n  ],\n  \"b\": {},\n  \"c\": []\n}"
        );
        assert_eq!(pretty("\"a\u{9b}\\\\\""), "\"a\\u009b\\\\\"");
        assert_eq!(pretty("17"), "17");
        // A payload may have members of the same name.
        assert_eq!(
            pretty(r#"{"b": 1, "a": 2, "b": 0}"#),
            "{\n  \"a\": 2,\n  \"b\": 1,\n  \"b\": 0\n}"
        );
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(pretty(&deep).lines().count(), 2 * MAX_DEPTH + 1);
    }
}
