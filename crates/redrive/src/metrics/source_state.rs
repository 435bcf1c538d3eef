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
    /// True if the last read succeeded.
    pub(crate) is_good: bool,
    /// Database time of the last successful read, in Unix seconds; 0 if there was none.
    pub(crate) good_at: f64,
    /// Start of the last successful read.
    pub(crate) good_since: Option<Instant>,
    /// True if the role lacked a privilege for the last read.
    pub(crate) is_refused: bool,
    /// Duration of the last read.
    pub(crate) duration: Duration,
}

impl SourceState {
    /// Returns whether the last successful read is recent enough to be published.
    pub(crate) fn is_current(&self, now: Instant) -> bool {
        self.good_since
            .is_some_and(|since| now.saturating_duration_since(since) <= MAX_AGE)
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

/// Returns whether the role lacked a privilege.
pub(crate) fn is_refusal(error: &Error) -> bool {
    error.sql_state() == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
}

/// Returns why the sources of a database that answers cannot be trusted, or `None` if they can.
pub(crate) fn distrust(sources: &BTreeMap<Source, SourceState>, now: Instant) -> Option<Distrust> {
    let is_old = |source: &Source| {
        let state = sources.get(source);
        state.is_none_or(|state| !state.is_current(now))
    };
    let is_refused = |source: &Source| sources.get(source).is_some_and(|state| state.is_refused);
    let mut old = NECESSARY.iter().filter(|source| is_old(source)).peekable();
    old.peek()?;
    if old.any(is_refused) {
        Some(Distrust::Privilege)
    } else {
        Some(Distrust::Collector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sources that were read well, except one that was last read well six minutes ago.
    #[track_caller]
    fn assert_distrust(old: Option<Source>, is_refused: bool, expected: Option<Distrust>) {
        let start = Instant::now();
        let now = start + Duration::from_mins(6);
        let state = |source| {
            let is_old = Some(source) == old;
            let state = SourceState {
                good_since: Some(if is_old { start } else { now }),
                is_refused,
                ..SourceState::default()
            };
            (source, state)
        };
        let sources = Source::DATABASE.map(state).into();
        assert_eq!(distrust(&sources, now), expected, "{old:?}");
    }

    #[test]
    fn each_necessary_source_must_be_current() {
        assert_distrust(None, false, None);
        assert_distrust(None, true, None);
        for source in NECESSARY {
            assert_distrust(Some(source), false, Some(Distrust::Collector));
            assert_distrust(Some(source), true, Some(Distrust::Privilege));
        }
        for source in [Source::Server, Source::Tables] {
            assert_distrust(Some(source), true, None);
        }
        let now = Instant::now();
        let unread = distrust(&BTreeMap::new(), now);
        assert_eq!(unread, Some(Distrust::Collector), "nothing was read");
    }
}
