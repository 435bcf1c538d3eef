//! The sources of captured failures: which one sends how many.

use std::time::SystemTime;

use crate::dlq::prelude::*;

/// How many letters are read.
const MAX_LETTERS: i64 = 10_000;

row! {
    /// The captured failures of one source that are open.
    #[derive(PartialEq, Eq)]
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
    /// If the database fails.
    pub fn captured_sources(&self) -> Result<CapturedSources> {
        let ask = self.db.ask();
        let rows = ask.rows(
            "count captured failures by source",
            &sql::CAPTURED_SOURCES,
            &[&MAX_LETTERS],
        )?;
        let read: i64 = rows.first().map_or(0, |row| row.get("letters"));
        Ok(CapturedSources {
            sources: rows
                .iter()
                .map(CapturedSource::from_row)
                .collect::<Result<_>>()?,
            is_complete: read < MAX_LETTERS,
        })
    }
}
