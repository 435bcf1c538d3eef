//! Tests of the ledger.

use super::*;
use crate::job::death_cause::DeathCause;
use crate::job::job::{JobId, JobMeta};
use crate::pipeline::judge::Verdict;
use std::sync::Arc;

fn lease() -> LeaseId {
    LeaseId(uuid::Uuid::new_v4())
}

fn settlement(lease: LeaseId, id: i64, generation: u32, verdict: Verdict) -> Settlement {
    let meta = Arc::new(JobMeta {
        id: JobId::new(id),
        generation,
        ..JobMeta::of_a_sample()
    });
    Settlement {
        verdict,
        ..Settlement::done(lease, &meta, Duration::ZERO, None, Instant::now())
    }
}

fn dead() -> Verdict {
    Verdict::Dead(DeathCause::Rejected)
}

/// A ledger with a lease of this many jobs, the first of which has this verdict.
fn opened(jobs: usize, first: Verdict) -> (Ledger, LeaseId, Instant) {
    let (mut ledger, lease, now) = (Ledger::default(), lease(), Instant::now());
    ledger.open(lease, jobs);
    ledger.settled(settlement(lease, 1, 0, first), now);
    (ledger, lease, now)
}

/// Takes what is due: per lease the number of verdicts, whether it ends, and whether it is done.
#[track_caller]
fn takes(ledger: &mut Ledger, now: Instant, flush: Flush, expected: &[(usize, bool, bool)]) {
    let due = ledger.take_due(now, flush);
    assert!(!due.iter().any(|lease| lease.is_postponed), "{due:?}");
    let of = |due: &Account| (due.settlements.len(), due.ends(), due.is_done());
    assert_eq!(due.iter().map(of).collect::<Vec<_>>(), expected);
    let open = due.into_iter().filter(|lease| !lease.ends());
    open.for_each(|lease| ledger.open(lease.lease, lease.left));
}

#[test]
fn a_lease_is_one_row_if_all_its_jobs_are_done_and_none_was_redriven() {
    for (generation, verdict, is_done) in [
        (0, Verdict::Done, true),
        (0, dead(), false),
        (1, Verdict::Done, false),
    ] {
        let (mut ledger, lease, now) = opened(2, Verdict::Done);
        // Half a lease is not due yet.
        takes(&mut ledger, now, Flush::Due, &[]);
        ledger.settled(settlement(lease, 2, generation, verdict), now);
        takes(&mut ledger, now, Flush::Due, &[(2, true, is_done)]);
        assert_eq!(ledger.next_due(), None);
    }
}

#[test]
fn a_verdict_does_not_wait_long_for_a_slow_job_of_its_lease() {
    let (mut ledger, lease, now) = opened(2, dead());
    assert_eq!(ledger.next_due(), Some(now + PARTIAL_AFTER));
    takes(&mut ledger, now, Flush::Due, &[]);
    let late = now + PARTIAL_AFTER;
    takes(&mut ledger, late, Flush::Due, &[(1, false, false)]);
    ledger.settled(settlement(lease, 2, 0, Verdict::Done), now);
    takes(&mut ledger, now, Flush::Due, &[(1, true, true)]);
}

#[test]
fn a_job_that_no_slot_started_returns_at_once() {
    let (mut ledger, lease, now) = opened(3, Verdict::Done);
    let unstarted = || settlement(lease, 2, 0, Verdict::Unrun(Duration::ZERO));
    ledger.settled(unstarted(), now);
    assert_eq!(ledger.next_due(), Some(now));
    takes(&mut ledger, now, Flush::Due, &[(2, false, false)]);
    ledger.settled(unstarted(), now);
    takes(&mut ledger, now, Flush::Due, &[(1, true, false)]);
}

#[test]
fn a_postponed_lease_keeps_its_verdicts_and_is_written_alone_after_a_wait() {
    let (mut ledger, now) = (Ledger::default(), Instant::now());
    let (locked, partial) = (lease(), lease());
    ledger.open(locked, 1);
    ledger.open(partial, 2);
    ledger.settled(settlement(locked, 1, 0, Verdict::Done), now);
    ledger.settled(settlement(partial, 2, 0, dead()), now);
    let mut now = now + PARTIAL_AFTER;
    let due = ledger.take_due(now, Flush::Due);
    assert_eq!(due.len(), 2);
    for mut lease in due {
        lease.is_unanswered = true;
        ledger.postpone(lease, now);
    }
    // The last job of a postponed lease joins its verdicts.
    ledger.settled(settlement(partial, 3, 0, Verdict::Done), now);
    for _ in 0..2 {
        assert_eq!(ledger.next_due(), Some(now + POSTPONED));
        assert!(ledger.take_due(now, Flush::Due).is_empty());
        now += POSTPONED;
        let mut verdicts = Vec::new();
        for _ in 0..2 {
            let mut due = ledger.take_due(now, Flush::Due);
            assert_eq!(due.len(), 1, "one at a time");
            let lease = due.remove(0);
            assert!(lease.is_postponed && lease.is_unanswered && lease.ends());
            verdicts.push((lease.lease == partial, lease.settlements.len()));
            ledger.postpone(lease, now);
        }
        verdicts.sort_unstable();
        assert_eq!(verdicts, [(false, 1), (true, 2)]);
    }
    assert_eq!(ledger.take_due(now, Flush::All).len(), 2);
}
