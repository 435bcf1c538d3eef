//! Keeps the last result of each source, and decides whether to trust it. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use postgres::error::SqlState;

use crate::error::Error;
use crate::metrics::Source;
use crate::metrics::metric::Distrust;
use crate::metrics::series::{Key, Numbers};

/// How old the values of a source may be. After that its series disappear.
const MAX_AGE: Duration = Duration::from_mins(5);

#[derive(Clone, Debug, Default)]
pub(crate) struct SourceState {
    /// The series of the last successful read.
    pub(crate) series: Vec<(Key, Numbers)>,
    /// Start of the last successful read, and the time of the database then, in Unix seconds.
    pub(crate) good: Option<(Instant, f64)>,
    /// Why the last read failed.
    pub(crate) failure: Option<Distrust>,
    /// Duration of the last read.
    pub(crate) duration: Duration,
}

impl SourceState {
    /// Returns whether the last successful read is recent enough to be published.
    pub(crate) fn is_current(&self, now: Instant) -> bool {
        self.good
            .is_some_and(|(since, _)| now.saturating_duration_since(since) <= MAX_AGE)
    }
}

/// Alerts on jobs, letters and workers combine these sources, so each of them is necessary.
const NECESSARY: [Source; 4] = [
    Source::Totals,
    Source::Queues,
    Source::Letters,
    Source::Operations,
];

impl Distrust {
    /// Returns the cause of an error that concerns all sources, on a connection that is still open.
    pub(crate) fn of(error: &Error) -> Distrust {
        let Some(state) = error.sql_state() else {
            // It answers with a row of other types, so another program owns a schema of the same name.
            return Distrust::Schema;
        };
        match (state, state.code().get(..2)) {
            (&SqlState::INSUFFICIENT_PRIVILEGE, _) => Distrust::Privilege,
            // As above.
            (&SqlState::UNDEFINED_TABLE | &SqlState::UNDEFINED_COLUMN, _) => Distrust::Schema,
            // The server starts, stops, lacks resources, refuses the connection, or gave up.
            (_, Some("08" | "28" | "3D" | "53" | "57")) => Distrust::Unreachable,
            // It answers, but a lock, for example, is in the way.
            _ => Distrust::Collector,
        }
    }
}

/// Returns why the sources of a database that answers cannot be trusted, or `None` if they can.
pub(crate) fn distrust(sources: &BTreeMap<Source, SourceState>, now: Instant) -> Option<Distrust> {
    let necessary = NECESSARY.iter().filter_map(|source| sources.get(source));
    let mut old = necessary.filter(|state| !state.is_current(now)).peekable();
    old.peek()?;
    match old.any(|state| state.failure == Some(Distrust::Privilege)) {
        true => Some(Distrust::Privilege),
        false => Some(Distrust::Collector),
    }
}
