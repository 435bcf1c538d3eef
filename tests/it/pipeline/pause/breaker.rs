//! A pause beside breakers: both must end, and neither ends or counts the other.

use redrive::admin::{Breaker, BreakerState};
use redrive_tests::Sql;

use super::*;

fn breaker(db: &Database) -> Breaker {
    let mut breakers = db.admin().breakers().unwrap();
    assert_eq!(breakers.len(), 1);
    breakers.remove(0)
}

#[test]
fn a_queue_waits_for_its_pause_and_its_breaker() {
    for is_resumed_first in [true, false] {
        let (test, queue) = TestDatabase::with_orders();
        let db = queue.database();
        let runs = Ledger::default();
        pause(&queue, PauseEnd::Resumed);
        db.admin()
            .open_breaker("queue:orders", None, &maria())
            .unwrap();
        let opened = breaker(db);
        let worker = runs.worker(&queue);
        queue.enqueue_many(&Order::up_to(5)).unwrap();
        let close = || assert!(db.admin().close_breaker("queue:orders", &maria()).unwrap());
        match is_resumed_first {
            true => resume(&queue),
            false => close(),
        }
        informed(&test, &[&worker]);
        assert_eq!(paused(db, "orders").is_some(), !is_resumed_first);
        match is_resumed_first {
            true => assert_eq!(breaker(db), opened, "a resume changes no breaker"),
            false => assert_eq!(breaker(db).state, BreakerState::Closed),
        }
        runs.allow();
        match is_resumed_first {
            true => close(),
            false => resume(&queue),
        }
        drained(&queue);
        assert_eq!(stop(worker).stats.done, 5);
    }
}

#[test]
fn a_pause_is_no_outage_and_a_due_probe_waits_for_its_end() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let runs = Ledger::default();
    // A breaker with a probe that is due.
    db.admin()
        .open_breaker("queue:orders", Some(HOUR), &maria())
        .unwrap();
    pause(&queue, PauseEnd::Resumed);
    let due = "UPDATE redrive.breakers SET probe_at = clock_timestamp() - interval '1 minute'";
    test.client().sql(due);
    let before = breaker(db);
    let worker = runs.worker(&queue);
    queue.enqueue_many(&Order::up_to(5)).unwrap();
    informed(&test, &[&worker]);
    let after = breaker(db);
    assert_eq!(
        (after.state, after.outages, after.openings, after.probes),
        (BreakerState::Open, before.outages, before.openings, 0)
    );
    runs.allow();
    resume(&queue);
    drained(&queue);
    let closed = breaker(db);
    assert_eq!((closed.state, closed.probes), (BreakerState::Closed, 1));
    assert_eq!(stop(worker).stats.done, 5);
}
