//! The sources of captured failures: which one sends how many.

use std::time::SystemTime;

use crate::db::sql;
use crate::dlq::handle::Dlq;
use crate::error::Result;

/// How many letters are read.
const MAX_LETTERS: i64 = 10_000;

/// The captured failures of one source that are open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CapturedSource {
    /// The source.
    pub source: String,
    /// How many of its letters are open.
    pub open: u64,
    /// How many of these were captured within the last hour.
    pub last_hour: u64,
    /// How many times their positions were captured.
    pub seen: u64,
    /// When the newest of them was captured.
    pub last_at: SystemTime,
}

/// The sources of captured failures that are open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CapturedSources {
    /// The sources, the one with most captures within the last hour first.
    pub sources: Vec<CapturedSource>,
    /// Whether all letters were counted, and not only the newest 10,000.
    pub is_complete: bool,
}

impl Dlq<'_> {
    /// Counts the captured failures that are open, by source.
    ///
    /// It reads the newest 10,000 of them, so that a flood does not make it slow.
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer.
    pub fn captured_sources(&self) -> Result<CapturedSources> {
        const DOING: &str = "count captured failures by source";
        self.db.call(DOING, |session| {
            let rows = session.query(DOING, &sql::CAPTURED_SOURCES, &[&MAX_LETTERS])?;
            let number = |row: &postgres::Row, name| row.get::<_, i64>(name).unsigned_abs();
            let read = rows.first().map_or(0, |row| number(row, "letters"));
            let sources = rows.iter().map(|row| CapturedSource {
                source: row.get("source"),
                open: number(row, "open"),
                last_hour: number(row, "last_hour"),
                seen: number(row, "seen"),
                last_at: row.get("last_at"),
            });
            Ok(CapturedSources {
                sources: sources.collect(),
                is_complete: read < MAX_LETTERS.unsigned_abs(),
            })
        })
    }
}
