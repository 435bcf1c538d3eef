//! NDJSON files: one payload or captured failure per line.

mod lines;
mod capture_line;

pub(crate) use capture_line::CaptureLine;
pub(crate) use lines::{BadLine, Lines};
