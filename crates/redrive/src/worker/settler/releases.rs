//! Releases jobs that did not run.

use std::sync::Arc;
use std::time::SystemTime;

use super::Settler;
use crate::db::sql;
use crate::error::{Error, Result};
use crate::job::job::JobId;
use crate::pipeline::claim::LeaseId;
use crate::pipeline::settle::{ReleaseScope, give_back, release};
use crate::pipeline::settlement::Settlement;
use crate::worker::latch::lock;
use crate::worker::retry::{call_timeout, retry, retry_unless_locked};

impl Settler<'_> {
    /// Releases jobs that wait behind slow ones.
    pub(super) fn release_unstarted(&mut self, lease: LeaseId, jobs: Vec<Settlement>) {
        let (state, db_caller, count) = (self.state, &mut *self.db_caller, jobs.len());
        let jobs: Arc<[Settlement]> = jobs.into();
        let given = retry_unless_locked(state, self.until, || {
            let (identity, jobs) = (state.identity.clone(), Arc::clone(&jobs));
            db_caller.call(
                "return unstarted jobs",
                call_timeout(state),
                move |session| give_back(session, &identity, &jobs),
            )
        });
        let given = given.unwrap_or_else(|error| {
            log::warn!(
                "{state}: waiting jobs not released yet; they go back with their lease: {error:#}"
            );
            0
        });
        state.count_released(given);
        self.kept.ledger.given_back(lease, given);
        // The others had returned, or the lease is lost. They end with it.
        (given..count).for_each(|_| self.kept.ledger.unrun(lease));
    }

    /// Releases the unrun jobs of these leases.
    pub(super) fn release_unrun(&mut self, leases: &[LeaseId]) {
        if leases.is_empty() {
            return;
        }
        self.state.forget(leases);
        if let Err(error) = self.release(&ReleaseScope::Leases(leases.to_vec()), Some(&[])) {
            let state = self.state;
            log::warn!("{state}: jobs could not be released; their lease will expire: {error:#}");
        }
    }

    /// Releases everything that is still held, and returns the jobs. Waits for other sessions that have locked some of it.
    pub(super) fn release_all(&mut self, started: &[JobId]) -> Result<Vec<JobId>> {
        // After a panic, nobody knows what the thread had started.
        let started = self.state.shared.failure.get().is_none().then_some(started);
        let mut released = self.release(&ReleaseScope::All, started)?;
        let (state, until) = (self.state, self.until);
        retry(state, until, || match self.locked_leases()? {
            0 => Ok(()),
            leases => {
                released.extend(self.release(&ReleaseScope::All, started)?);
                Err(Error::unavailable(format!(
                    "could not release all leases: other sessions have locked {leases} of them"
                )))
            }
        })?;
        Ok(released)
    }

    /// Returns the number of leases that remain.
    fn locked_leases(&mut self) -> Result<i64> {
        let (worker, what) = (self.state.identity.id.0, "look for leases that remain");
        self.db_caller
            .call(what, call_timeout(self.state), move |session| {
                let row = session.query_one(what, &sql::LOCKED_LEASES, &[&worker])?;
                Ok(row.get("leases"))
            })
    }

    /// Ends the transactions of handlers that were given up. They cannot settle their jobs, but they have locks.
    pub(super) fn end_transactions(&mut self) {
        if self.kept.transactions.is_empty() {
            return;
        }
        let open = std::mem::take(&mut self.kept.transactions).into_iter();
        let (pids, begins): (Vec<i32>, Vec<SystemTime>) =
            open.map(|open| (open.pid, open.began)).unzip();
        let what = "end the transactions of handlers";
        let timeout = call_timeout(self.state);
        let ended = self.db_caller.call(what, timeout, move |session| {
            session.query(what, &sql::END_TRANSACTIONS, &[&pids, &begins])
        });
        if let Err(error) = ended {
            log::warn!("{}: they end with their handlers: {error}", self.state);
        }
    }

    /// Releases leases with one statement, or lease by lease if the database rejects that, so that one
    /// lease does not hold the others.
    fn release(&mut self, scope: &ReleaseScope, started: Option<&[JobId]>) -> Result<Vec<JobId>> {
        let cause = match self.try_release(scope, started) {
            Err(error) if !error.is_unavailable() => error,
            answer => return answer,
        };
        let leases = match scope {
            ReleaseScope::Leases(leases) => leases.clone(),
            ReleaseScope::All => lock(&self.state.held).keys().copied().collect(),
            ReleaseScope::Unknown { .. } => Vec::new(),
        };
        if leases.len() < 2 {
            return Err(cause);
        }
        log::warn!("{}: releasing lease by lease: {cause:?}", self.state);
        let (mut released, mut rejected) = (Vec::new(), None);
        for lease in leases {
            match self.try_release(&ReleaseScope::Leases(vec![lease]), started) {
                Ok(more) => released.extend(more),
                Err(error) => rejected = Some(error),
            }
        }
        match rejected {
            Some(error) => Err(error),
            None => Ok(released),
        }
    }

    fn try_release(
        &mut self,
        scope: &ReleaseScope,
        started: Option<&[JobId]>,
    ) -> Result<Vec<JobId>> {
        let (state, db_caller) = (self.state, &mut *self.db_caller);
        let started: Option<Arc<[JobId]>> = started.map(Arc::from);
        let released = retry(state, self.until, || {
            let (scope, started, worker) = (scope.clone(), started.clone(), state.identity.id);
            db_caller.call("release jobs", call_timeout(state), move |session| {
                release(session, worker, &scope, started.as_deref())
            })
        })?;
        state.count_released(released.len());
        Ok(released)
    }
}
