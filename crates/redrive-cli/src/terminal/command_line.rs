//! Commands to type next: never cut, and broken with a backslash if the window is too narrow.

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
    let mut is_quoted = false;
    command
        .split(move |character| {
            is_quoted ^= character == '\'';
            character == ' ' && !is_quoted
        })
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_broken_at_spaces_outside_of_quotes() {
        let command = "redrive dlq list q 'message~card declined' class=E";
        assert_eq!(command_lines("  ", command, None), format!("  {command}"));
        assert_eq!(
            command_lines("  ", command, Some(80)),
            format!("  {command}")
        );
        assert_eq!(
            command_lines("  ", command, Some(52)),
            format!("  {command}")
        );
        assert_eq!(
            command_lines("  ", command, Some(46)),
            "  redrive dlq list q 'message~card declined' \\\n    class=E"
        );
        assert_eq!(
            command_lines("  ", command, Some(40)),
            "  redrive dlq list q \\\n    'message~card declined' class=E"
        );
    }

    #[test]
    fn a_word_that_is_too_long_has_its_own_line() {
        let long = "x".repeat(30);
        assert_eq!(
            command_lines("", &format!("redrive {long}"), Some(20)),
            format!("redrive \\\n  {long}")
        );
    }
}
