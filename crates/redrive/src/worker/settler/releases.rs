//! Releases what a worker holds when it stops, and ends transactions of handlers.

use std::time::{Duration, SystemTime};

use super::Settler;
use crate::db::ask::{one, rows};
use crate::db::sql;
use crate::error::{Error, Result};
use crate::job::job::{JobId, OpenTransaction};
use crate::pipeline::claim::LeaseId;
use crate::pipeline::settle::release;
use crate::worker::latch::lock;
use crate::worker::retry::retry;

impl Settler<'_> {
    /// Releases everything that is still held, and returns the jobs. Waits for other sessions that have locked some of it.
    pub(super) fn release_all(&self, started: &[JobId]) -> Result<Vec<JobId>> {
        let mut released = Vec::new();
        retry(self.state, self.until, Error::is_unavailable, || {
            released.extend(self.release(started)?);
            match self.locked_leases()? {
                0 => Ok(()),
                leases => Err(Error::unavailable(format!(
                    "could not release all leases: other sessions have locked {leases} of them"
                ))),
            }
        })?;
        Ok(released)
    }

    /// Returns the number of leases that remain.
    fn locked_leases(&self) -> Result<i64> {
        let (worker, what) = (self.state.identity.id.0, "look for leases that remain");
        self.call(what, one(what, &sql::LOCKED_LEASES, &[&worker]))
    }

    /// Ends the transactions of handlers that were given up. They cannot settle their jobs, but they have locks.
    pub(super) fn end_transactions(&self, transactions: &mut Vec<OpenTransaction>) {
        if transactions.is_empty() {
            return;
        }
        let open = std::mem::take(transactions).into_iter();
        let (pids, begins): (Vec<i32>, Vec<SystemTime>) =
            open.map(|open| (open.pid, open.began)).unzip();
        let what = "end the transactions of handlers";
        let end = rows(what, &sql::END_TRANSACTIONS, &[&pids, &begins]);
        if let Err(error) = self.call(what, end) {
            log::warn!("{}: they end with their handlers: {error}", self.state);
        }
    }

    /// Releases all leases with one statement, or lease by lease if the database rejects that, so that one
    /// lease does not hold the others.
    fn release(&self, started: &[JobId]) -> Result<Vec<JobId>> {
        let cause = match self.try_release(None, started) {
            Err(error) if !error.is_unavailable() => error,
            answer => return answer,
        };
        let leases: Vec<LeaseId> = lock(&self.state.held).keys().copied().collect();
        if leases.len() < 2 {
            return Err(cause);
        }
        log::warn!("{}: releasing lease by lease: {cause:?}", self.state);
        let each = leases.into_iter();
        let each = each.map(|lease| self.try_release(Some(lease), started));
        // All of them, also after an error.
        let each: Vec<Result<Vec<JobId>>> = each.collect();
        Ok(each.into_iter().collect::<Result<Vec<_>>>()?.concat())
    }

    /// Releases one lease, or all of them.
    fn try_release(&self, lease: Option<LeaseId>, started: &[JobId]) -> Result<Vec<JobId>> {
        let worker = self.state.identity.id;
        let leases = lease.as_ref().map(std::slice::from_ref);
        let release = release(worker, leases, Duration::ZERO, Some(started));
        let released = self.call("release jobs", release)?;
        self.state.count_released(released.len());
        Ok(released)
    }
}
