//! Decisions: what the handler of a batch says about one of its jobs, kept until the batch ends.

use std::sync::PoisonError;

use crate::job::disposition::Disposition;
use crate::job::failure::Failure;
use crate::job::follow_up::FollowUp;
use crate::sync::Mutex;

/// How the handler of a batch ended one of its jobs: it is done, with copies of the follow-ups that it had by then, for a
/// batch that exceeds its deadline, or its attempt failed.
pub(crate) type Decision = Result<Vec<FollowUp>, Failure>;

/// The last decision about a job. The handler may change it until the batch ends.
#[derive(Debug, Default)]
pub(crate) struct LastDecision(Mutex<Option<Box<Decision>>>);

impl LastDecision {
    /// Records that the attempt failed.
    pub(crate) fn failed(&self, failure: Failure) {
        self.set(Err(failure));
    }

    /// Records that the job is done, with the follow-ups so far.
    pub(crate) fn done(&self, follow_ups: Vec<FollowUp>) {
        self.set(Ok(follow_ups));
    }

    fn set(&self, decision: Decision) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(Box::new(decision));
    }

    /// Returns the decision so far.
    pub(crate) fn so_far(&self) -> Option<Result<(), Disposition>> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let decision = last.as_deref()?.as_ref();
        Some(decision.map(drop).map_err(Failure::decision))
    }

    /// Returns the last decision. It stays, because the handler may end while the watchdog or a stop takes its jobs.
    pub(crate) fn last(&self) -> Option<Decision> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_deref().cloned()
    }
}
