//! NDJSON files: one payload or captured failure per line.

mod input;
mod lines;
mod capture_line;

/// The text without the byte order mark that some programs write at its start.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

pub(crate) use capture_line::CaptureLine;
pub(crate) use input::{read, read_text, shown};
pub(crate) use lines::{BadLine, Lines};
