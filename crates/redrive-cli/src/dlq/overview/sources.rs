//! Sources of captured failures that wait, so that a flood names its source.

use redrive::dlq::{CapturedSource, CapturedSources, LetterFilter};
use serde::Serialize;

use crate::selection::quoted;
use crate::terminal::{Json as _, grouped, line};
use crate::time::ago;

/// Describes a source in one line.
pub(super) fn line(source: &CapturedSource) -> String {
    format!(
        "{}: {} open, {} captured in the last hour, last {} ago, seen {} times",
        source.source,
        grouped(source.open),
        grouped(source.last_hour),
        ago(source.last_at),
        grouped(source.seen)
    )
}

/// The command that lists the letters of a source.
pub(super) fn next(source: &CapturedSource) -> String {
    let condition = LetterFilter::new().source(&source.source);
    format!("redrive dlq list {}", quoted(&condition.to_string()))
}

pub(super) fn json(sources: &CapturedSources) -> Vec<impl Serialize> {
    let lines = sources.sources.iter().map(|source| {
        line!(source =>
            source, open, captured_last_hour = source.last_hour, seen,
            last_captured_at = source.last_at.json(),
        )
    });
    lines.collect()
}
