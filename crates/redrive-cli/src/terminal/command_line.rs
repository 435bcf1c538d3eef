//! Commands to type next: never cut, and broken with a backslash if the window is too narrow.

use super::escape::clean;
use super::width::width;

/// Returns the lines of a command. Lines after the first are indented further. A break is only at a
/// space outside of quotes, so that the lines can be pasted into a shell. Without a window there is
/// none.
pub(crate) fn command_lines(indent: &str, command: &str, columns: Option<usize>) -> String {
    let whole = format!("{indent}{command}");
    let Some(columns) = columns.filter(|columns| width(&whole) > *columns) else {
        return whole;
    };
    let mut lines: Vec<String> = Vec::new();
    for word in words(command) {
        match lines.last_mut() {
            // Two columns are for the backslash.
            Some(line) if width(line) + 1 + width(word) + 2 <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            Some(line) => {
                line.push_str(" \\");
                lines.push(format!("{indent}  {word}"));
            }
            None => lines.push(format!("{indent}{word}")),
        }
    }
    lines.join("\n")
}

/// Splits a command at the spaces outside of single quotes.
fn words(command: &str) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    command
        .split(move |character| {
            // A backslash within quotes is a character like others.
            let was_escaped = is_escaped;
            is_escaped = character == '\\' && !is_quoted && !was_escaped;
            is_quoted ^= character == '\'' && !was_escaped;
            character == ' ' && !is_quoted
        })
        .filter(|word| !word.is_empty())
}

/// Quotes a word for a shell. Dangerous characters, which a name in the database may contain, are
/// shown as escapes.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "_-./:@+,=%".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", clean(word).replace('\'', r"'\''"))
}

/// Quotes the last word of a command, which may begin with `-`.
pub(crate) fn operand(word: &str) -> String {
    match word.starts_with('-') {
        true => format!("-- {}", quoted(word)),
        false => quoted(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_broken_at_spaces_outside_of_quotes() {
        let command = "redrive dlq list q 'message~card declined' class=E";
        for (columns, lines) in [
            (None, command),
            (Some(52), command),
            (
                Some(46),
                "redrive dlq list q 'message~card declined' \\\n    class=E",
            ),
            (
                Some(40),
                "redrive dlq list q \\\n    'message~card declined' class=E",
            ),
            // A word that is too long has its own line.
            (
                Some(20),
                "redrive dlq list \\\n    q \\\n    'message~card declined' \\\n    class=E",
            ),
        ] {
            let expected = format!("  {lines}");
            assert_eq!(command_lines("  ", command, columns), expected);
        }
    }

    #[test]
    fn a_quoted_word_with_an_apostrophe_is_not_broken() {
        let word = quoted("it can't reach it's host");
        let command = format!("list {word} class=E");
        let parts: Vec<&str> = words(&command).collect();
        assert_eq!(parts, ["list", &*word, "class=E"]);
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, as_typed) in [
            ("orders", "orders"),
            ("age>2h", "'age>2h'"),
            ("class=it's exit 1", r"'class=it'\''s exit 1'"),
            ("", "''"),
            ("$(rm)", "'$(rm)'"),
            ("a\u{202e}b", r"'a\u{202e}b'"),
        ] {
            assert_eq!(quoted(word), as_typed);
            assert_eq!(operand(word), as_typed);
        }
        assert_eq!(operand("-q"), "-- -q");
    }
}
