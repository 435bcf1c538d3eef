//! Messages on stderr, in lines that fit the window.

use std::borrow::Cow;

use super::width::width;
use super::window::columns_of_stderr;

/// The start of an error. Its text continues below the text.
const ERROR: &str = "error: ";

/// Returns a message as it is written to stderr: with line breaks at the edge of a terminal, and
/// unchanged elsewhere, because a program may read it line by line.
pub(crate) fn message(text: &str) -> Cow<'_, str> {
    match columns_of_stderr() {
        Some(columns) => Cow::Owned(broken(text, columns)),
        None => Cow::Borrowed(text),
    }
}

/// Breaks lines at spaces. An indented line is a command or a list, and stays whole.
fn broken(text: &str, columns: usize) -> String {
    let lines = text.split('\n').map(|line| match line.starts_with(' ') {
        true => line.to_owned(),
        false => broken_line(line, columns),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn broken_line(line: &str, columns: usize) -> String {
    let is_error = without_styles(line).starts_with(ERROR);
    let indent = " ".repeat(if is_error { ERROR.len() } else { 0 });
    let size = |text: &str| width(&without_styles(text));
    let mut lines: Vec<String> = Vec::new();
    for word in line.split(' ') {
        match lines.last_mut() {
            None => lines.push(word.to_owned()),
            Some(line) if size(line) + 1 + size(word) <= columns => line.extend([" ", word]),
            Some(_) => lines.push(format!("{indent}{word}")),
        }
    }
    lines.join("\n")
}

/// Returns a text without the sequences that set a style.
fn without_styles(text: &str) -> String {
    let mut is_sequence = false;
    text.chars()
        .filter(|character| {
            let is_part = is_sequence || *character == '\u{1b}';
            is_sequence = is_part && *character != 'm';
            !is_part
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_continues_below_its_text() {
        assert_eq!(
            broken("error: one two three", 14),
            "error: one two\n       three"
        );
        assert_eq!(
            broken("\u{1b}[1m\u{1b}[31merror:\u{1b}[0m one two three", 14),
            "\u{1b}[1m\u{1b}[31merror:\u{1b}[0m one two\n       three"
        );
    }

    #[test]
    fn commands_and_long_words_stay_whole() {
        for (text, expected) in [
            ("one two three", "one two\nthree"),
            (
                "one: two three\n  redrive dlq list",
                "one: two\nthree\n  redrive dlq list",
            ),
            ("a 1234567890 b", "a\n1234567890\nb"),
            ("short", "short"),
            ("", ""),
        ] {
            assert_eq!(broken(text, 9), expected, "{text}");
        }
    }
}
