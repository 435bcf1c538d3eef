//! Outages: a dependency is down, and the job is not charged.

use redrive_tests::prelude::*;

/// Makes delayed jobs due and ages the outages of waiting jobs.
fn later(test: &TestDatabase, hours: i32) {
    let mut client = test.client();
    for age in [
        "UPDATE redrive.jobs SET meta.outage_since = (meta).outage_since - $1::integer * interval '1 hour'",
        "UPDATE redrive.jobs_delayed SET run_at = clock_timestamp() - interval '1 second', \
         meta.outage_since = (meta).outage_since - $1::integer * interval '1 hour'",
    ] {
        client.change(age, &[&hours]);
    }
    client.sql("NOTIFY redrive_ready, 'orders'");
}

#[test]
fn after_a_day_an_outage_is_an_ordinary_failure() {
    let (test, queue) = TestDatabase::with_orders();
    let down = || {
        // Its breaker stays closed.
        let builder = worker(&test.queue("orders")).breaker_threshold(1000);
        builder.runs(|_: &Job<Order>| Err(Failure::outage("down").class("GatewayDown")))
    };
    let id = put(&queue, new_order(1).max_attempts(2));
    // Without a worker in between, so that the job waits while it ages.
    for (older, hours) in [(0, 0), (23, 23)] {
        later(&test, older);
        let worker = down();
        counted(&worker, "an outage", |counts| counts.outages >= 1);
        let counts = stop(worker).stats;
        assert_eq!((counts.retried, counts.dead), (0, 0));
        let since = "SELECT (extract(epoch FROM clock_timestamp() - outage_since) / 3600)::bigint \
                     FROM redrive.live_jobs";
        assert_eq!(scalar(&mut test.client(), since), hours);
        assert_eq!(queue.live(id).attempts, 0);
    }
    later(&test, 2);
    // Both of its attempts are used up now, one after the other.
    let worker = down();
    died(&worker, 1);
    let counts = stop(worker).stats;
    assert_eq!((counts.outages, counts.retried), (0, 1));
    let letter = queue.letter(id);
    assert_eq!((letter.cause, letter.attempts), (DeathCause::Exhausted, 2));
    let class = letter.history[0].error_class.as_deref();
    assert_eq!(class, Some("GatewayDown"));
    let mut outcomes: Vec<&str> = outcomes(&letter).iter().map(|it| it.1).collect();
    assert!(outcomes.len() >= 4, "{outcomes:?}");
    outcomes.dedup();
    assert_eq!(outcomes, ["outage", "failed", "exhausted"]);
}
