//! Decides how loudly a worker logs a database error that it retries.

use std::collections::HashSet;

use log::Level;

use crate::error::Error;
use crate::sync::Mutex;
use crate::worker::latch::lock;

/// The causes of database errors since the database last answered.
#[derive(Default)]
pub(crate) struct OutageLog(Mutex<HashSet<String>>);

impl OutageLog {
    /// The level of an error: each cause is loud once, and its repetitions are for debugging.
    pub(crate) fn level(&self, error: &Error) -> Level {
        match (lock(&self.0).insert(error.cause()), error.is_unavailable()) {
            (false, _) => Level::Debug,
            (true, true) => Level::Warn,
            (true, false) => Level::Error,
        }
    }

    /// Forgets the causes, because the leases were just renewed.
    pub(crate) fn database_answered(&self) {
        lock(&self.0).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_warned_of_once_per_cause_and_again_after_an_answer() {
        let log = OutageLog::default();
        let unavailable = |doing, cause| Error::unavailable(doing).caused_by(cause);
        let starting = |doing| unavailable(doing, "the database system is starting up");
        let refused = |doing| unavailable(doing, "Connection refused");
        let definite = || Error::invalid("could not claim jobs").caused_by("no such column");
        for (error, level) in [
            (refused("could not claim jobs"), Level::Warn),
            (refused("could not claim jobs"), Level::Debug),
            (refused("could not renew the leases"), Level::Debug),
            (starting("could not claim jobs"), Level::Warn),
            (refused("could not claim jobs"), Level::Debug),
            (definite(), Level::Error),
            (definite(), Level::Debug),
        ] {
            assert_eq!(log.level(&error), level, "{error:#}");
        }
        log.database_answered();
        assert_eq!(log.level(&refused("could not claim jobs")), Level::Warn);
    }
}
