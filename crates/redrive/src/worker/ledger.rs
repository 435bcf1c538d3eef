//! Tracks which jobs of which leases are settled, and decides what to write when. Pure.
//!
//! Ending a lease deletes one row, however many jobs it held. Whole leases are therefore settled
//! together when possible. Part of a lease is written only after [`PARTIAL_AFTER`], so that a slow
//! job does not delay the verdicts of its batch.
//!
//! A lease that could not be written is postponed with its verdicts. It is then written alone, at
//! most one such lease at a time, so that a lock on it delays the other leases only briefly.

use std::collections::HashMap;
use std::time::Duration;

use crate::pipeline::claim::LeaseId;
use crate::pipeline::settlement::Settlement;
use crate::sync::Instant;

/// How long a verdict waits for the rest of its lease.
pub(crate) const PARTIAL_AFTER: Duration = Duration::from_millis(50);
/// How long a postponed lease waits.
pub(crate) const POSTPONED: Duration = Duration::from_secs(2);

/// The open leases of a worker.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    accounts: HashMap<LeaseId, Account>,
}

/// What is known of an open lease, and what to write about it.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) lease: LeaseId,
    /// Jobs without a verdict.
    pub(crate) left: usize,
    /// Verdicts to write.
    pub(crate) settlements: Vec<Settlement>,
    /// When they must be written. `None`: there are none.
    write_at: Option<Instant>,
    /// Whether an earlier write may have taken effect.
    pub(crate) is_unanswered: bool,
    /// Whether it waits because a write failed. It is then written alone.
    pub(crate) is_postponed: bool,
}

impl Account {
    /// Whether the lease ends once these are written, because no job is left.
    pub(crate) fn ends(&self) -> bool {
        self.left == 0
    }

    /// Whether the lease ends because all its remaining jobs are done.
    pub(crate) fn is_done(&self) -> bool {
        self.ends() && self.settlements.iter().all(Settlement::is_plain_done)
    }
}

/// Which verdicts to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    /// Those of whole leases, and those that waited long enough.
    Due,
    /// All.
    All,
}

impl Ledger {
    pub(crate) fn open(&mut self, lease: LeaseId, jobs: usize) {
        let account = Account {
            lease,
            left: jobs,
            settlements: Vec::new(),
            write_at: None,
            is_unanswered: false,
            is_postponed: false,
        };
        self.accounts.insert(lease, account);
    }

    /// Whether a lease is open.
    pub(crate) fn knows(&self, lease: LeaseId) -> bool {
        self.accounts.contains_key(&lease)
    }

    pub(crate) fn settled(&mut self, settlement: Settlement, now: Instant) {
        let Some(account) = self.accounts.get_mut(&settlement.lease) else {
            return;
        };
        account.left = account.left.saturating_sub(1);
        if !account.is_postponed {
            // Another worker may have a free slot for a job that did not start.
            let write_at = match account.ends() || settlement.is_unstarted() {
                true => now,
                false => now + PARTIAL_AFTER,
            };
            account.write_at = account.write_at.into_iter().chain([write_at]).min();
        }
        account.settlements.push(settlement);
    }

    /// Takes back a lease that could not be written, to write it later.
    pub(crate) fn postpone(&mut self, unwritten: Account, now: Instant) {
        let account = Account {
            write_at: Some(now + POSTPONED),
            is_postponed: true,
            ..unwritten
        };
        self.accounts.insert(account.lease, account);
    }

    /// When the next write is due. `None`: none waits.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let accounts = self.accounts.values();
        accounts.filter_map(|account| account.write_at).min()
    }

    /// Removes and returns what to write now: of the postponed leases, only the one that has been due for the longest time.
    pub(crate) fn take_due(&mut self, now: Instant, flush: Flush) -> Vec<Account> {
        let is_due = |account: &Account| account.write_at.is_some_and(|at| at <= now);
        let postponed = self.accounts.values().filter(|it| it.is_postponed);
        let longest_due = postponed
            .filter(|it| is_due(it))
            .min_by_key(|it| it.write_at);
        let next_postponed = longest_due.map(|account| account.lease);
        let is_taken = |lease: &LeaseId, account: &mut Account| match flush {
            Flush::All => !account.settlements.is_empty(),
            Flush::Due if account.is_postponed => next_postponed == Some(*lease),
            Flush::Due => is_due(account),
        };
        let taken = self.accounts.extract_if(is_taken);
        taken.map(|(_, account)| account).collect()
    }
}

#[cfg(test)]
mod tests;
