//! The ledger: which jobs of which leases are accounted for, and what is to be written when.
//! Pure.
//!
//! A lease that ends is one row deleted, however many jobs it had; so whole leases are settled
//! whenever possible, and parts of one only after [`PARTIAL_AFTER`], so that a slow job does not
//! hold up what became of its batch-mates.

use std::collections::HashMap;
use std::time::Duration;

use crate::claim::LeaseId;
use crate::floor::Instant;
use crate::settle::Settlement;
use crate::worker::cells::DoneLease;

/// How long a verdict waits for the rest of its lease.
pub(crate) const PARTIAL_AFTER: Duration = Duration::from_millis(50);

/// The open leases of a worker.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    accounts: HashMap<LeaseId, Account>,
}

#[derive(Debug)]
struct Account {
    /// Jobs of which nothing was heard.
    left: usize,
    /// Jobs that came back unrun.
    unrun: usize,
    /// Verdicts not written yet.
    pending: Vec<Settlement>,
    /// Since when the oldest of them waits.
    since: Instant,
}

/// What is to be written now.
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// Leases to end, all of whose open jobs are plainly done.
    pub(crate) done: Vec<DoneLease>,
    /// Verdicts of other leases, lease by lease.
    pub(crate) settlements: Vec<Settlement>,
    /// The leases that end with those verdicts.
    pub(crate) ended: Vec<LeaseId>,
    /// Leases that hold nothing but unrun jobs once those verdicts are written: to be released.
    pub(crate) released: Vec<LeaseId>,
}

/// Which verdicts are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    /// Those of whole leases, and those that have waited long enough.
    Ripe,
    /// All.
    Everything,
}

impl Ledger {
    pub(crate) fn open(&mut self, lease: LeaseId, jobs: usize, now: Instant) {
        self.accounts.insert(
            lease,
            Account {
                left: jobs,
                unrun: 0,
                pending: Vec::new(),
                since: now,
            },
        );
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
            account.unrun += 1;
        }
    }

    /// Whether jobs of a lease are left beside so many that nobody began: if so these can be given
    /// back alone. If not they go back with the lease.
    pub(crate) fn keeps_more_than(&self, lease: LeaseId, unbegun: usize) -> bool {
        self.accounts
            .get(&lease)
            .is_some_and(|account| account.left > unbegun)
    }

    /// So many jobs of a lease are in the database's hands again.
    pub(crate) fn given_back(&mut self, lease: LeaseId, jobs: usize) {
        if let Some(account) = self.accounts.get_mut(&lease) {
            account.left = account.left.saturating_sub(jobs);
        }
    }

    /// Forgets a lease that ended some other way.
    pub(crate) fn gone(&mut self, lease: LeaseId) {
        self.accounts.remove(&lease);
    }

    /// When the next verdict has waited long enough. `None`: none waits.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let waiting = self
            .accounts
            .values()
            .filter(|account| !account.pending.is_empty());
        waiting.map(|account| account.since + PARTIAL_AFTER).min()
    }

    /// Takes out what is to be written now.
    pub(crate) fn take_due(&mut self, now: Instant, flush: Flush) -> Due {
        let mut due = Due::default();
        self.accounts.retain(|lease, account| {
            if account.left > 0 {
                let ripe = match flush {
                    Flush::Ripe => now.saturating_duration_since(account.since) >= PARTIAL_AFTER,
                    Flush::Everything => true,
                };
                if ripe {
                    due.settlements.append(&mut account.pending);
                }
                return true;
            }
            if account.unrun > 0 {
                due.settlements.append(&mut account.pending);
                due.released.push(*lease);
            } else if account.pending.iter().all(Settlement::is_plain_done) {
                due.done.push(DoneLease::of(*lease, &account.pending));
            } else {
                due.settlements.append(&mut account.pending);
                due.ended.push(*lease);
            }
            false
        });
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Story;
    use crate::job::{Facts, JobId};
    use crate::judge::Verdict;
    use crate::reason::Reason;
    use std::time::SystemTime;

    fn lease() -> LeaseId {
        LeaseId(uuid::Uuid::new_v4())
    }

    fn settlement(lease: LeaseId, id: i64, generation: u32, verdict: Verdict) -> Settlement {
        let facts = Facts {
            id: JobId::new(id),
            queue: "q".into(),
            kind: "k".into(),
            attempt: 1,
            max_attempts: 5,
            generation,
            priority: 0,
            enqueued_at: SystemTime::UNIX_EPOCH,
            is_unique: false,
            outage_age: None,
            age: Duration::ZERO,
            wait: Duration::ZERO,
            claimed: Instant::now(),
        };
        Settlement {
            lease,
            facts,
            run_time: Duration::ZERO,
            verdict,
            in_outage: false,
            cause: None,
            age: Duration::ZERO,
        }
    }

    fn dead() -> Verdict {
        Verdict::Dead {
            reason: Reason::Rejected,
            story: Story::new("C", "m".to_owned(), None),
        }
    }

    #[test]
    fn a_lease_whose_jobs_are_all_done_is_one_row() {
        let (mut ledger, lease, now) = (Ledger::default(), lease(), Instant::now());
        ledger.open(lease, 2, now);
        ledger.settled(settlement(lease, 1, 0, Verdict::Done), now);
        assert!(
            ledger.take_due(now, Flush::Ripe).done.is_empty(),
            "half of it is not due yet"
        );
        ledger.settled(settlement(lease, 2, 0, Verdict::Done), now);
        let due = ledger.take_due(now, Flush::Ripe);
        assert_eq!((due.done[0].lease, due.done[0].jobs), (lease, 2));
        assert!(due.settlements.is_empty() && due.ended.is_empty() && due.released.is_empty());
        assert_eq!(ledger.next_due(), None);
    }

    #[test]
    fn a_failure_or_a_redriven_job_is_told_in_full() {
        for (generation, verdict) in [(0, dead()), (1, Verdict::Done)] {
            let (mut ledger, lease, now) = (Ledger::default(), lease(), Instant::now());
            ledger.open(lease, 2, now);
            ledger.settled(settlement(lease, 1, 0, Verdict::Done), now);
            ledger.settled(settlement(lease, 2, generation, verdict), now);
            let due = ledger.take_due(now, Flush::Ripe);
            assert_eq!(
                (due.settlements.len(), due.ended, due.done.len()),
                (2, vec![lease], 0)
            );
        }
    }

    #[test]
    fn verdicts_do_not_wait_for_a_slow_mate_for_long() {
        let (mut ledger, lease, now) = (Ledger::default(), lease(), Instant::now());
        ledger.open(lease, 2, now);
        ledger.settled(settlement(lease, 1, 0, dead()), now);
        assert_eq!(ledger.next_due(), Some(now + PARTIAL_AFTER));
        assert!(ledger.take_due(now, Flush::Ripe).settlements.is_empty());
        let due = ledger.take_due(now + PARTIAL_AFTER, Flush::Ripe);
        assert_eq!((due.settlements.len(), due.ended.len()), (1, 0));
        ledger.settled(settlement(lease, 2, 0, Verdict::Done), now);
        let done = ledger.take_due(now, Flush::Ripe).done;
        assert_eq!((done[0].lease, done[0].jobs), (lease, 1));
    }

    #[test]
    fn unrun_jobs_are_released_after_the_verdicts_of_their_mates() {
        let (mut ledger, lease, now) = (Ledger::default(), lease(), Instant::now());
        ledger.open(lease, 2, now);
        ledger.settled(settlement(lease, 1, 0, Verdict::Done), now);
        ledger.unrun(lease);
        let due = ledger.take_due(now, Flush::Ripe);
        assert_eq!(
            (due.settlements.len(), due.ended.len(), due.released),
            (1, 0, vec![lease])
        );
    }

    #[test]
    fn what_was_given_back_is_not_waited_for() {
        let (mut ledger, lease, now) = (Ledger::default(), lease(), Instant::now());
        ledger.open(lease, 4, now);
        ledger.settled(settlement(lease, 1, 0, Verdict::Done), now);
        assert!(ledger.keeps_more_than(lease, 2), "one is running");
        assert!(!ledger.keeps_more_than(lease, 3), "nothing is");
        ledger.given_back(lease, 2);
        assert!(ledger.take_due(now, Flush::Ripe).done.is_empty());
        ledger.settled(settlement(lease, 2, 0, Verdict::Done), now);
        let due = ledger.take_due(now, Flush::Ripe);
        assert_eq!((due.done[0].lease, due.done[0].jobs), (lease, 2));
        assert!(
            !ledger.keeps_more_than(lease, 0),
            "it is not there any more"
        );
    }

    #[test]
    fn at_the_end_everything_is_due() {
        let (mut ledger, lease, now) = (Ledger::default(), lease(), Instant::now());
        ledger.open(lease, 3, now);
        ledger.settled(settlement(lease, 1, 0, Verdict::Done), now);
        assert_eq!(ledger.take_due(now, Flush::Everything).settlements.len(), 1);
        ledger.gone(lease);
        ledger.settled(settlement(lease, 2, 0, Verdict::Done), now);
        assert_eq!(ledger.take_due(now, Flush::Everything).settlements.len(), 0);
    }
}
