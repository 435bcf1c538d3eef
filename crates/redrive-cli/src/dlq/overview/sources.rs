//! Sources of captured failures that wait, so that a flood names its source.

use std::io::Write;

use redrive::dlq::{CapturedSource, CapturedSources, LetterFilter};

use super::activity::Activity;
use crate::prelude::*;

pub(super) const HEADING: &str = "Captured failures by source";
/// How many sources are shown.
pub(super) const SHOWN: usize = 5;

/// All sources, each with the command that lists its letters.
pub(super) fn activities(captured: &CapturedSources) -> Vec<Activity> {
    let activity = |source: &CapturedSource| Activity {
        line: format!(
            "{}: {} open, {} captured in the last hour, last {} ago, seen {} times",
            source.source,
            grouped(source.open),
            grouped(source.last_hour),
            ago(source.last_at),
            grouped(source.seen)
        ),
        next: {
            let condition = LetterFilter::new().source(&source.source);
            format!("{Me} dlq list {}", quoted(&condition.to_string()))
        },
        json: json!(object!(source =>
            source, open, captured_last_hour = source.last_hour, seen,
            last_captured_at = source.last_at.json(),
        )),
    };
    captured.sources.iter().map(activity).collect()
}

/// Writes how many sources are not shown.
pub(super) fn write_others(captured: &CapturedSources, out: &mut dyn Write) -> Result<()> {
    match captured.sources.len().saturating_sub(SHOWN) {
        0 => {}
        others => writeln!(out, "  and {}", counted(others as u64, "other source"))?,
    }
    if !captured.is_complete && !captured.sources.is_empty() {
        writeln!(out, "  (of the newest 10,000)")?;
    }
    Ok(())
}
