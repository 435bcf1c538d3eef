//! Outages: a dependency is down, and the job is not charged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redrive::dlq::{DeathCause, LetterState};
use redrive::{Failure, Job, JobId, Worker};
use redrive_tests::{
    Begin, Dead, Gate, Hold, Lost, Order, Sql, TestDatabase, counted, died, expire_leases,
    letters_in, live_job, new_order, put, retried, stop, worker,
};

/// Returns the hours since the first outage in a row of a live job.
fn hours_in_outage(test: &TestDatabase, id: JobId) -> Option<i64> {
    let asked = "SELECT (extract(epoch FROM clock_timestamp() - outage_since) / 3600)::bigint \
                 FROM redrive.live_jobs WHERE id = $1";
    let row = test.client().query_one(asked, &[&id.get()]).unwrap();
    row.get(0)
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
    let worker = patient(&test, |job| match job.payload().number {
        1 => Err(Failure::outage("the gateway is down").class("GatewayDown")),
        _ => Ok(()),
    });
    let once = new_order(1).max_attempts(1);
    let id = put(&queue, once);
    counted(&worker, "an outage", |counts| counts.outages >= 1);
    later(&test, 0);
    counted(&worker, "further outages", |counts| counts.outages >= 2);
    let counts = stop(worker).stats;
    assert_eq!((counts.retried, counts.dead), (0, 0));
    let job = live_job(&queue, id);
    assert_eq!((job.attempts, job.max_attempts), (0, 1));
    assert_eq!(job.history.len() as u64, counts.outages);
    for attempt in &job.history {
        assert_eq!(
            (
                &*attempt.outcome,
                attempt.attempt,
                attempt.error_class.as_deref()
            ),
            ("outage", 1, Some("GatewayDown"))
        );
    }
    assert_eq!(letters_in(queue.database(), "orders", LetterState::Open), 0);
}

#[test]
fn after_a_day_an_outage_is_an_ordinary_failure() {
    let (test, queue) = TestDatabase::with_orders();
    let down = || {
        patient(&test, |_| {
            Err(Failure::outage("down").dependency("payments"))
        })
    };
    let twice = new_order(1).max_attempts(2);
    let id = put(&queue, twice);
    // Without a worker in between, so that the job waits while it ages.
    for (older, hours) in [(0, 0), (23, 23)] {
        later(&test, older);
        let worker = down();
        counted(&worker, "an outage", |counts| counts.outages >= 1);
        assert_eq!(stop(worker).stats.retried, 0);
        assert_eq!(
            hours_in_outage(&test, id),
            Some(hours),
            "since the first in a row"
        );
    }
    later(&test, 2);
    // Both of its attempts are used up now, one after the other.
    let worker = down();
    died(&worker, 1);
    let counts = stop(worker).stats;
    assert_eq!((counts.outages, counts.retried), (0, 1));
    let letter = queue.letter(id);
    assert_eq!((letter.cause, letter.attempts), (DeathCause::Exhausted, 2));
    let outcomes: Vec<&str> = letter
        .history
        .iter()
        .map(|attempt| &*attempt.outcome)
        .collect();
    let (charged, free) = (
        &outcomes[outcomes.len() - 2..],
        &outcomes[..outcomes.len() - 2],
    );
    assert_eq!(charged, ["failed", "exhausted"]);
    assert!(
        free.len() >= 2 && free.iter().all(|outcome| *outcome == "outage"),
        "{free:?}"
    );
}

#[test]
fn any_other_verdict_ends_the_outage_of_a_job() {
    let (test, queue) = TestDatabase::with_orders();
    let gate = Gate::new();
    let worker = worker(&queue).breaker_threshold(1000).runs({
        let gate = gate.clone();
        let failed = AtomicBool::new(false);
        move |job: &Job<Order>| {
            if job.attempt() == 1 && !failed.swap(true, Ordering::SeqCst) {
                return Err(Failure::outage("down"));
            }
            if job.attempt() == 1 {
                return Err(Failure::retry("of its own").after(Duration::from_hours(1)));
            }
            gate.pass();
            Err(Failure::outage("down again"))
        }
    });
    let id = queue.enqueue(&Order { number: 1 }).unwrap();
    counted(&worker, "an outage", |counts| counts.outages == 1);
    later(&test, 0);
    retried(&worker, 1);
    assert_eq!(hours_in_outage(&test, id), None);
    later(&test, 0);
    gate.wait_for(1);
    gate.open();
    counted(&worker, "another outage", |counts| counts.outages >= 2);
    assert_eq!(hours_in_outage(&test, id), Some(0), "it starts again");
    stop(worker);
}

#[test]
fn a_crash_and_a_release_do_not_end_the_outage_of_a_job() {
    let (test, queue) = TestDatabase::with_orders();
    let id = queue.enqueue(&Hold {}).unwrap();
    let (gate, down) = (Gate::new(), Arc::new(AtomicBool::new(true)));
    let start = || {
        let (gate, down) = (gate.clone(), Arc::clone(&down));
        let handler = move |_: &Job<Hold>| {
            if down.load(Ordering::SeqCst) {
                return Err(Failure::outage("down"));
            }
            gate.pass();
            Ok(())
        };
        worker(&queue).runs(handler)
    };
    let first = start();
    counted(&first, "an outage", |counts| counts.outages >= 1);
    stop(first);
    down.store(false, Ordering::SeqCst);
    later(&test, 5);
    let released = start();
    gate.wait_for(1);
    released.stop(Duration::ZERO).unwrap();
    assert_eq!(hours_in_outage(&test, id), Some(5), "given back");
    let lost = start();
    gate.wait_for(2);
    assert_eq!(hours_in_outage(&test, id), Some(5), "in its lease");
    assert_eq!(expire_leases(&mut test.client()), [Lost::Back(id)]);
    drop(lost);
    gate.open();
}
