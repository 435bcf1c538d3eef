//! How things look: text of the database made safe for a terminal, JSON made readable, a few
//! words in colour when a terminal looks.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::error::Result;

/// Shows text of unknown origin on a terminal: what could move the cursor, change colours or turn
/// the direction of writing is shown as an escape instead. Line breaks and tabs stay.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_dangerous) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_dangerous(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// The same on one line: line breaks and tabs become blanks.
pub(crate) fn one_line(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Control characters except line break and tab; marks that reorder or hide text.
fn is_dangerous(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{061c}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}' => true,
        '\u{e0000}'..='\u{e007f}' => true,
        character => character.is_control(),
    }
}

/// Cuts a text to a number of characters, the last one an ellipsis.
pub(crate) fn cut(text: &str, characters: usize) -> String {
    if text.chars().count() <= characters {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(characters.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// Writes JSON text with line breaks and indentation; its numbers and strings stay as they are.
pub(crate) fn pretty(json: &str) -> String {
    let mut shown = String::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    let mut characters = json.chars().peekable();
    let line = |shown: &mut String, depth: usize| {
        shown.push('\n');
        shown.extend(std::iter::repeat_n("  ", depth.min(20)));
    };
    while let Some(character) = characters.next() {
        if in_string {
            in_string = escaped || character != '"';
            escaped = character == '\\' && !escaped;
            match is_dangerous(character) {
                // As JSON has it: a pair for a character that needs one.
                true => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        // Writing to a String cannot fail.
                        _ = write!(shown, "\\u{unit:04x}");
                    }
                }
                false => shown.push(character),
            }
            continue;
        }
        match character {
            blank if blank.is_whitespace() => {}
            '"' => {
                in_string = true;
                shown.push('"');
            }
            '{' | '[' => {
                shown.push(character);
                while characters.next_if(|next| next.is_whitespace()).is_some() {}
                if let Some(end) = characters.next_if(|next| matches!(next, '}' | ']')) {
                    shown.push(end);
                } else {
                    depth += 1;
                    line(&mut shown, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut shown, depth);
                shown.push(character);
            }
            ',' => {
                shown.push(',');
                line(&mut shown, depth);
            }
            ':' => shown.push_str(": "),
            other => shown.push(other),
        }
    }
    shown
}

/// Writes one JSON object on a line of its own.
pub(crate) fn json_line(out: &mut dyn Write, object: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(object).map_err(io::Error::from)?;
    line.push(b'\n');
    Ok(out.write_all(&line)?)
}

/// A count and its noun: `1 letter`, `2 letters`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{} {noun}s", grouped(count)),
    }
}

/// A number with its thousands set apart: `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// Whether and how words are coloured on a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Looks {
    coloured: bool,
}

impl Looks {
    /// The looks of what goes to stdout.
    pub(crate) fn of_stdout() -> Looks {
        Looks {
            coloured: wanted(&io::stdout(), |name| std::env::var_os(name)),
        }
    }

    /// The looks of what goes to stderr.
    pub(crate) fn of_stderr() -> Looks {
        Looks {
            coloured: wanted(&io::stderr(), |name| std::env::var_os(name)),
        }
    }

    #[cfg(test)]
    pub(crate) fn plain() -> Looks {
        Looks { coloured: false }
    }

    #[cfg(test)]
    pub(crate) fn coloured() -> Looks {
        Looks { coloured: true }
    }

    /// Whether there is colour at all.
    pub(crate) fn colours(self) -> bool {
        self.coloured
    }

    /// A heading.
    pub(crate) fn heading(self, text: &str) -> String {
        self.styled(Style::new().bold(), text)
    }

    /// The word that starts an error.
    pub(crate) fn error(self, text: &str) -> String {
        self.styled(
            Style::new().bold().fg_color(Some(AnsiColor::Red.into())),
            text,
        )
    }

    /// What is not there any more.
    pub(crate) fn gone(self, text: &str) -> String {
        self.styled(Style::new().fg_color(Some(AnsiColor::Red.into())), text)
    }

    /// What is there now.
    pub(crate) fn added(self, text: &str) -> String {
        self.styled(Style::new().fg_color(Some(AnsiColor::Green.into())), text)
    }

    fn styled(self, style: Style, text: &str) -> String {
        match self.coloured {
            true => format!("{style}{text}{style:#}"),
            false => text.to_owned(),
        }
    }
}

/// Whether colour is wanted on a stream: on a terminal that knows it, unless `NO_COLOR` says no
/// (<https://no-color.org>); elsewhere when `CLICOLOR_FORCE` says so
/// (<https://bixense.com/clicolors>), as for `redrive dlq | less -R`.
fn wanted(stream: &impl IsTerminal, variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let value = |name| variable(name).filter(|value| !value.is_empty());
    if value("NO_COLOR").is_some() {
        return false;
    }
    let forced = value("CLICOLOR_FORCE").is_some_and(|value| value != "0");
    let knows = value("TERM").is_none_or(|term| term != "dumb");
    forced || (knows && stream.is_terminal())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals_unless_told_otherwise() {
        let file = std::fs::File::open("/dev/null").expect("what is no terminal");
        for (set, expected) in [
            (&[][..], false),
            (&[("CLICOLOR_FORCE", "1")], true),
            (&[("CLICOLOR_FORCE", "0")], false),
            (&[("CLICOLOR_FORCE", "")], false),
            (&[("CLICOLOR_FORCE", "1"), ("TERM", "dumb")], true),
            (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
            (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "")], true),
        ] {
            let variable = |name: &str| {
                let found = set.iter().find(|(set, _)| *set == name);
                found.map(|(_, value)| OsString::from(value))
            };
            assert_eq!(wanted(&file, variable), expected, "{set:?}");
        }
    }

    #[test]
    fn nothing_of_the_database_reaches_the_terminal_as_a_command() {
        assert_eq!(clean("\u{1b}[2Jgone\r"), "\\u{1b}[2Jgone\\u{d}");
        assert_eq!(
            clean("a\u{202e}b\u{2066}c\u{9b}d\u{7f}"),
            "a\\u{202e}b\\u{2066}c\\u{9b}d\\u{7f}"
        );
        assert_eq!(clean("größe\n\t日本"), "größe\n\t日本");
        assert_eq!(one_line(" a\n\tb\u{0} c "), "a b\\u{0} c");
    }

    #[test]
    fn json_is_indented_and_otherwise_left_alone() {
        let shown = pretty(r#"{"a": [1e400, "x, {\"y\": 1}"], "b": {}, "c": [ ]}"#);
        assert_eq!(
            shown,
            "{\n  \"a\": [\n    1e400,\n    \"x, {\\\"y\\\": 1}\"\n  ],\n  \"b\": {},\n  \"c\": []\n}"
        );
        assert_eq!(pretty("\"a\u{9b}\\\\\""), "\"a\\u009b\\\\\"");
        assert_eq!(pretty("17"), "17");
    }

    #[test]
    fn texts_are_cut_by_characters_not_bytes() {
        assert_eq!(cut("größer", 6), "größer");
        assert_eq!(cut("größer", 4), "grö…");
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(grouped),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [counted(1, "job"), counted(1_200, "job")],
            ["1 job", "1,200 jobs"]
        );
    }
}
