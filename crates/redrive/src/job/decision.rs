//! Decisions: what the handler of a batch says about one of its jobs, kept until the batch ends.

use crate::job::disposition::Disposition;
use crate::job::failure::Failure;
use crate::sync::{Mutex, lock};

/// How the handler of a batch ended one of its jobs: it is done, or its attempt failed.
pub(crate) type Decision = Result<(), Failure>;

/// The last decision about a job. The handler may change it until the batch ends.
#[derive(Debug, Default)]
pub(crate) struct LastDecision(Mutex<Option<Box<Decision>>>);

impl LastDecision {
    pub(crate) fn set(&self, decision: Decision) {
        *lock(&self.0) = Some(Box::new(decision));
    }

    /// Returns the last decision. It stays, because the handler may end while the watchdog or a stop takes its jobs.
    pub(crate) fn last(&self) -> Option<Decision> {
        lock(&self.0).as_deref().cloned()
    }

    /// Returns what it asks for.
    pub(crate) fn disposition(&self) -> Option<Result<(), Disposition>> {
        let last = self.last()?;
        Some(last.map_err(|failure| failure.decision()))
    }
}
