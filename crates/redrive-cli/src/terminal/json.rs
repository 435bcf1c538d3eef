//! JSON for programs, one object per line, and for people, indented.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde::Serialize;

use super::escape::is_dangerous;
use crate::error::Result;

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

/// Indents JSON. Numbers and strings stay as written, except for dangerous characters.
pub(crate) fn pretty(json: &str) -> String {
    let mut text = String::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    let mut characters = json.chars().peekable();
    let new_line = |text: &mut String, depth: usize| {
        text.push('\n');
        text.extend(std::iter::repeat_n("  ", depth.min(20)));
    };
    while let Some(character) = characters.next() {
        if in_string {
            in_string = escaped || character != '"';
            escaped = character == '\\' && !escaped;
            match is_dangerous(character) {
                // JSON escapes are UTF-16: a character may need two.
                true => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        // Writing to a String cannot fail.
                        _ = write!(text, "\\u{unit:04x}");
                    }
                }
                false => text.push(character),
            }
            continue;
        }
        match character {
            space if space.is_whitespace() => {}
            '"' => {
                in_string = true;
                text.push('"');
            }
            '{' | '[' => {
                text.push(character);
                while characters.next_if(|next| next.is_whitespace()).is_some() {}
                if let Some(end) = characters.next_if(|next| matches!(next, '}' | ']')) {
                    text.push(end);
                } else {
                    depth += 1;
                    new_line(&mut text, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut text, depth);
                text.push(character);
            }
            ',' => {
                text.push(',');
                new_line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            other => text.push(other),
        }
    }
    text
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
    }
}
