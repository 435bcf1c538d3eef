//! Sources of captured failures that wait, so that a flood names its source.

use redrive::dlq::{CapturedSource, CapturedSources, LetterFilter};
use serde_json::{Value, json};

use crate::dlq::filter::quoted;
use crate::terminal::grouped;
use crate::time::{ago, rfc3339};

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

pub(super) fn json(sources: &CapturedSources) -> Value {
    let objects = sources.sources.iter().map(|source| {
        json!({
            "source": source.source,
            "open": source.open,
            "captured_last_hour": source.last_hour,
            "seen": source.seen,
            "last_captured_at": rfc3339(source.last_at),
        })
    });
    objects.collect()
}
