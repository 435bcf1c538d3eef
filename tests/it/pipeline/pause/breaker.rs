//! A pause beside breakers: both must end, and neither ends or counts the other.

use super::*;

fn breaker(db: &Database) -> Breaker {
    let mut breakers = db.admin().breakers().unwrap();
    assert_eq!(breakers.len(), 1);
    breakers.remove(0)
}

#[test]
fn a_queue_waits_for_its_pause_and_its_breaker() {
    let close = |queue: &Queue| {
        let admin = queue.database().admin();
        assert!(admin.close_breaker("queue:orders", &maria()).unwrap());
        assert_eq!(breaker(queue.database()).state, BreakerState::Closed);
    };
    let resumes = |queue: &Queue| {
        let opened = breaker(queue.database());
        resume(queue);
        let now = breaker(queue.database());
        assert_eq!(now, opened, "a resume changes no breaker");
    };
    let resumes: &dyn Fn(&Queue) = &resumes;
    for (first, second) in [(resumes, &close as &dyn Fn(&Queue)), (&close, &resume)] {
        let (test, queue) = TestDatabase::with_orders();
        pause(&queue, PauseEnd::Resumed);
        test.sql("SELECT redrive.open_breaker('queue:orders')");
        let worker = willing(&queue);
        queue.enqueue_many(&Order::up_to(5)).unwrap();
        first(&queue);
        informed(&test, &[&worker]);
        assert_eq!(worker.stats().done, 0);
        second(&queue);
        drained(&queue);
        assert_eq!(stop(worker).stats.done, 5);
    }
}

#[test]
fn a_pause_is_no_outage_and_a_due_probe_waits_for_its_end() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    // A breaker with a probe that is due.
    test.sql("SELECT redrive.open_breaker('queue:orders', '1 hour')");
    pause(&queue, PauseEnd::Resumed);
    test.sql("UPDATE redrive.breakers SET probe_at = clock_timestamp() - interval '1 minute'");
    let before = breaker(db);
    let worker = willing(&queue);
    queue.enqueue_many(&Order::up_to(5)).unwrap();
    informed(&test, &[&worker]);
    let after = breaker(db);
    assert_eq!((after.state, after.probes), (BreakerState::Open, 0));
    assert_eq!(after.outages, before.outages);
    resume(&queue);
    drained(&queue);
    let closed = breaker(db);
    assert_eq!((closed.state, closed.probes), (BreakerState::Closed, 1));
    assert_eq!(stop(worker).stats.done, 5);
}
