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
/// The first and the longest wait of a postponed lease.
pub(crate) const MIN_POSTPONED: Duration = Duration::from_secs(1);
pub(crate) const MAX_POSTPONED: Duration = Duration::from_secs(30);

/// The open leases of a worker.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    accounts: HashMap<LeaseId, Account>,
}

#[derive(Debug)]
struct Account {
    /// Jobs without a result.
    left: usize,
    /// Whether jobs came back without having run.
    has_unrun: bool,
    /// Verdicts to write.
    pending: Vec<Settlement>,
    /// Since when the oldest verdict waits.
    since: Instant,
    /// Whether an earlier write may have taken effect.
    is_unanswered: bool,
    /// Set after a failed write.
    postponed: Option<Postponed>,
}

/// When to write a lease again.
#[derive(Clone, Copy, Debug)]
struct Postponed {
    until: Instant,
    wait: Duration,
}

/// What to write about a lease.
#[derive(Debug)]
pub(crate) struct DueLease {
    pub(crate) lease: LeaseId,
    pub(crate) settlements: Vec<Settlement>,
    pub(crate) rest: Rest,
    /// Whether an earlier write may have taken effect.
    pub(crate) is_unanswered: bool,
    /// The last wait, if the lease was postponed.
    waited: Option<Duration>,
}

/// The rest of a lease after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Jobs without a result.
    Open,
    /// Nothing: the lease ends.
    Nothing,
    /// Unrun jobs, to be released.
    Unrun,
}

impl DueLease {
    /// Whether it was postponed before. It is then written alone.
    pub(crate) fn has_waited(&self) -> bool {
        self.waited.is_some()
    }

    /// Whether the lease ends because all its remaining jobs are done.
    pub(crate) fn is_done(&self) -> bool {
        self.rest == Rest::Nothing && self.settlements.iter().all(Settlement::is_plain_done)
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

impl Account {
    fn new(left: usize, now: Instant) -> Account {
        Account {
            left,
            has_unrun: false,
            pending: Vec::new(),
            since: now,
            is_unanswered: false,
            postponed: None,
        }
    }

    fn rest(&self) -> Rest {
        match (self.left, self.has_unrun) {
            (0, false) => Rest::Nothing,
            (0, true) => Rest::Unrun,
            (_, _) => Rest::Open,
        }
    }

    /// When its verdicts must be written. `None`: there are none.
    fn due_at(&self) -> Option<Instant> {
        match self.postponed {
            Some(postponed) => Some(postponed.until),
            None => (!self.pending.is_empty()).then(|| self.since + PARTIAL_AFTER),
        }
    }
}

impl Ledger {
    pub(crate) fn open(&mut self, lease: LeaseId, jobs: usize, now: Instant) {
        self.accounts.insert(lease, Account::new(jobs, now));
    }

    /// Whether a lease is open.
    pub(crate) fn knows(&self, lease: LeaseId) -> bool {
        self.accounts.contains_key(&lease)
    }

    pub(crate) fn settled(&mut self, settlement: Settlement, now: Instant) {
        let Some(account) = self.accounts.get_mut(&settlement.lease) else {
            return;
        };
        if account.pending.is_empty() {
            account.since = now;
        }
        account.left = account.left.saturating_sub(1);
        account.pending.push(settlement);
    }

    pub(crate) fn unrun(&mut self, lease: LeaseId) {
        if let Some(account) = self.accounts.get_mut(&lease) {
            account.left = account.left.saturating_sub(1);
            account.has_unrun = true;
        }
    }

    /// Records jobs of a lease that were released.
    pub(crate) fn given_back(&mut self, lease: LeaseId, jobs: usize) {
        if let Some(account) = self.accounts.get_mut(&lease) {
            account.left = account.left.saturating_sub(jobs);
        }
    }

    /// Forgets a lease that ended in another way.
    pub(crate) fn gone(&mut self, lease: LeaseId) {
        self.accounts.remove(&lease);
    }

    /// Takes back a lease that could not be written, to write it later.
    pub(crate) fn postpone(&mut self, due: DueLease, now: Instant) {
        let wait = due
            .waited
            .map_or(MIN_POSTPONED, |waited| (waited * 2).min(MAX_POSTPONED));
        let account = self
            .accounts
            .entry(due.lease)
            .or_insert_with(|| Account::new(0, now));
        account.has_unrun |= due.rest == Rest::Unrun;
        account.pending.splice(..0, due.settlements);
        account.is_unanswered |= due.is_unanswered;
        account.postponed = Some(Postponed {
            until: now + wait,
            wait,
        });
    }

    /// When the next write is due. `None`: none waits.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.accounts.values().filter_map(Account::due_at).min()
    }

    /// Removes and returns what to write now.
    pub(crate) fn take_due(&mut self, now: Instant, flush: Flush) -> Vec<DueLease> {
        let next_postponed = self.next_postponed(now);
        let mut due = Vec::new();
        self.accounts.retain(|lease, account| {
            let rest = account.rest();
            let is_due = match (flush, account.postponed) {
                (Flush::All, _) => true,
                (Flush::Due, Some(_)) => next_postponed == Some(*lease),
                (Flush::Due, None) => {
                    rest != Rest::Open || account.due_at().is_some_and(|at| at <= now)
                }
            };
            if !is_due || rest == Rest::Open && account.pending.is_empty() {
                return true;
            }
            due.push(DueLease {
                lease: *lease,
                settlements: std::mem::take(&mut account.pending),
                rest,
                is_unanswered: std::mem::take(&mut account.is_unanswered),
                waited: account.postponed.take().map(|postponed| postponed.wait),
            });
            rest == Rest::Open
        });
        due
    }

    /// Returns the lease that has been due for the longest time among the postponed ones.
    fn next_postponed(&self, now: Instant) -> Option<LeaseId> {
        let accounts = self.accounts.iter();
        accounts
            .filter_map(|(lease, account)| Some((account.postponed?.until, *lease)))
            .filter(|(until, _)| *until <= now)
            .min()
            .map(|(_, lease)| lease)
    }
}

#[cfg(test)]
mod tests;
