//! Breaks texts at spaces, where they would reach the edge of the window.

use std::io::Write;

use textwrap::{Options, WordSplitter, fill};

use super::width::width;
use super::window::columns_of_stdout;
use crate::error::Result;

/// Writes a text after a label. A text that is wider than the window continues below its start.
pub(crate) fn write_labelled(out: &mut dyn Write, label: &str, text: &str) -> Result<()> {
    let indent = " ".repeat(width(label));
    let lines = match columns_of_stdout().filter(|_| !text.is_empty()) {
        Some(columns) => fill(
            text,
            options(columns)
                .initial_indent(label)
                .subsequent_indent(&indent),
        ),
        None => format!("{label}{text}"),
    };
    Ok(writeln!(out, "{lines}")?)
}

/// Returns a text in lines of so many columns. A line that begins with a space stays whole: it is a command to copy.
pub(crate) fn wrapped(text: &str, columns: usize) -> String {
    let wrapped = |line: &str| match line.starts_with(' ') {
        true => line.to_owned(),
        false => fill(line, options(columns)),
    };
    text.split('\n').map(wrapped).collect::<Vec<_>>().join("\n")
}

/// A longer word stays whole, because it may be an address or a part of a command.
fn options<'a>(columns: usize) -> Options<'a> {
    Options::new(columns)
        .break_words(false)
        .word_splitter(WordSplitter::NoHyphenation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_in_a_message_stays_whole() {
        assert_eq!(
            wrapped(
                "to move the rest of them:\n  redrive dlq groups rules remove 3\n",
                20
            ),
            "to move the rest of\nthem:\n  redrive dlq groups rules remove 3\n"
        );
    }
}
