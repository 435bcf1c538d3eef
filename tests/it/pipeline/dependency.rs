//! Outages: a dependency is down, and the job is not charged.

use redrive_tests::prelude::*;

/// Returns the hours since the first outage in a row of a live job.
fn hours_in_outage(test: &TestDatabase, id: JobId) -> Option<i64> {
    let asked = "SELECT (extract(epoch FROM clock_timestamp() - outage_since) / 3600)::bigint \
                 FROM redrive.live_jobs WHERE id = $1";
    test.client().ask(asked, &[&id.get()])
}

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

/// A worker whose breaker stays closed during these tests.
fn patient(test: &TestDatabase, handler: fn(&Job<Order>) -> Result<(), Failure>) -> Worker {
    let builder = worker(&test.queue("orders")).breaker_threshold(1000);
    builder.runs(handler)
}

#[test]
fn an_outage_charges_no_attempt_and_is_recorded() {
    let (test, queue) = TestDatabase::with_orders();
    let worker = patient(&test, |_| {
        Err(Failure::outage("the gateway is down").class("GatewayDown"))
    });
    let id = put(&queue, new_order(1).max_attempts(1));
    counted(&worker, "an outage", |counts| counts.outages >= 1);
    later(&test, 0);
    counted(&worker, "further outages", |counts| counts.outages >= 2);
    let counts = stop(worker).stats;
    assert_eq!((counts.retried, counts.dead), (0, 0));
    let job = live_job(&queue, id);
    assert_eq!((job.attempts, job.max_attempts), (0, 1));
    assert_eq!(job.history.len() as u64, counts.outages);
    for attempt in &job.history {
        let recorded = (&*attempt.outcome, attempt.attempt);
        assert_eq!(recorded, ("outage", 1));
        assert_eq!(attempt.error_class.as_deref(), Some("GatewayDown"));
    }
    assert_eq!(in_state(&queue, LetterState::Open), 0);
}

#[test]
fn after_a_day_an_outage_is_an_ordinary_failure() {
    let (test, queue) = TestDatabase::with_orders();
    let outage = |_: &Job<Order>| Err(Failure::outage("down").dependency("payments"));
    let down = || patient(&test, outage);
    let id = put(&queue, new_order(1).max_attempts(2));
    // Without a worker in between, so that the job waits while it ages.
    for (older, hours) in [(0, 0), (23, 23)] {
        later(&test, older);
        let worker = down();
        counted(&worker, "an outage", |counts| counts.outages >= 1);
        assert_eq!(stop(worker).stats.retried, 0);
        let since_the_first = hours_in_outage(&test, id);
        assert_eq!(since_the_first, Some(hours));
    }
    later(&test, 2);
    // Both of its attempts are used up now, one after the other.
    let worker = down();
    died(&worker, 1);
    let counts = stop(worker).stats;
    assert_eq!((counts.outages, counts.retried), (0, 1));
    let letter = queue.letter(id);
    assert_eq!((letter.cause, letter.attempts), (DeathCause::Exhausted, 2));
    let mut outcomes: Vec<&str> = outcomes(&letter).iter().map(|it| it.1).collect();
    assert!(outcomes.len() >= 4, "{outcomes:?}");
    outcomes.dedup();
    assert_eq!(outcomes, ["outage", "failed", "exhausted"]);
}
