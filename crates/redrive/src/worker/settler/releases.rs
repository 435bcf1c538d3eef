//! Releases jobs that did not run.

use std::sync::Arc;

use super::Settler;
use crate::error::Result;
use crate::job::job::JobId;
use crate::pipeline::claim::LeaseId;
use crate::pipeline::settle::{ReleaseScope, give_back, release};
use crate::worker::latch::lock;
use crate::worker::retry::{call_timeout, retry, retry_unless_locked};

impl Settler<'_> {
    /// Releases jobs that wait behind slow ones. Releases the whole lease if nothing else is left
    /// of it.
    pub(super) fn release_unstarted(&mut self, lease: LeaseId, jobs: Vec<JobId>) {
        let (state, db_caller, count) = (self.state, &mut self.db_caller, jobs.len());
        let jobs: Arc<[JobId]> = jobs.into();
        let given = match self.ledger.has_more_than(lease, count) {
            true => retry_unless_locked(state, self.until, || {
                let jobs = Arc::clone(&jobs);
                db_caller.call(
                    "return unstarted jobs",
                    call_timeout(state),
                    move |session| give_back(session, lease, &jobs),
                )
            }),
            false => Ok(0),
        };
        match given {
            Ok(0) => (0..count).for_each(|_| self.ledger.unrun(lease)),
            Ok(given) => {
                state.count_released(given);
                self.ledger.given_back(lease, count);
            }
            Err(error) => {
                log::warn!(
                    "{state}: waiting jobs not released yet; they go back with their lease: {error}"
                );
                (0..count).for_each(|_| self.ledger.unrun(lease));
            }
        }
    }

    /// Releases the unrun jobs of these leases.
    pub(super) fn release_unrun(&mut self, leases: &[LeaseId]) {
        if leases.is_empty() {
            return;
        }
        self.forget(leases);
        match self.release(&ReleaseScope::Leases(leases.to_vec()), Vec::new()) {
            Ok(released) => self.state.count_released(released),
            Err(error) => {
                let state = self.state;
                log::warn!("{state}: jobs could not be released; their lease will expire: {error}");
            }
        }
    }

    /// Releases everything that is still held.
    pub(super) fn release_all(&mut self, started: Vec<JobId>) -> Result<()> {
        let released = self.release(&ReleaseScope::All, started);
        lock(&self.state.held).clear();
        self.state.count_released(released?);
        Ok(())
    }

    fn release(&mut self, scope: &ReleaseScope, started: Vec<JobId>) -> Result<usize> {
        let (state, db_caller) = (self.state, &mut self.db_caller);
        let started: Arc<[JobId]> = started.into();
        retry(state, self.until, || {
            let (scope, started, worker) = (scope.clone(), Arc::clone(&started), state.identity.id);
            db_caller.call("release jobs", call_timeout(state), move |session| {
                release(session, worker, &scope, &started)
            })
        })
    }
}
