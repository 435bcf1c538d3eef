//! The view `dlq_events`: the usual analysis queries, and the status of each failure.

mod archive;
mod changes;
mod operators;
mod sessions;

use std::time::Duration;

use postgres::Client;
use redrive::dlq::{ForeignFailure, LetterFilter};
use redrive::{Backoff, Failure, Job, NewJob, Operator};
use redrive_tests::{Begin, Order, Sql, TestDatabase, counted, ids, scalar, stop, worker};

// The queries are the specification and run unchanged.
const FAILURES_BY_REASON: &str = "\
-- Failures by error reason in the last 24 hours
SELECT error_reason, COUNT(*) as count
FROM dlq_events
WHERE created_at > NOW() - INTERVAL '24 hours'
GROUP BY error_reason
ORDER BY count DESC;";

const FAILURE_RATE_BY_TYPE: &str = "\
-- Failure rate by event type
SELECT event_type,
COUNT(*) FILTER (WHERE status = 'SUCCEEDED') as succeeded,
COUNT(*) FILTER (WHERE status = 'PENDING') as pending,
COUNT(*) FILTER (WHERE status = 'FAILED_PERMANENTLY') as failed
FROM dlq_events
GROUP BY event_type;";

const STUCK_IN_RETRY_LOOP: &str = "\
-- Events stuck in retry loop
SELECT *
FROM dlq_events
WHERE retry_count > 5
AND status = 'PENDING'
ORDER BY created_at;";

/// Fails orders by number.
fn fail(job: &Job<Order>) -> Result<(), Failure> {
    match job.payload().number {
        1..=4 => Err(Failure::reject("card declined")),
        5..=6 => Err(Failure::reject("no such customer")),
        7 if job.generation() > 0 => Ok(()),
        7 => Err(Failure::reject("gateway down")),
        8..=9 => Err(Failure::retry("gateway timeout")),
        _ => Ok(()),
    }
}

/// A database with failures of many kinds, made by a worker.
fn friday_evening() -> TestDatabase {
    let (test, queue) = TestDatabase::with_orders();
    let worker = worker(&queue)
        // Six quick attempts, then a wait.
        .backoff(Backoff::custom(|attempt| {
            Duration::from_secs(if attempt < 6 { 0 } else { 3600 })
        }))
        .handle(fail)
        .started();
    let jobs: Vec<_> = Order::up_to(12)
        .iter()
        .map(|order| NewJob::new(order).unwrap().max_attempts(20))
        .collect();
    let ids = ids(&queue.enqueue_jobs(&jobs).unwrap());
    counted(&worker, "all to have ended or to wait", |counts| {
        (counts.dead, counts.retried, counts.done) == (7, 12, 3)
    });
    // One is fixed, and one is a week old.
    let db = queue.database();
    db.dlq()
        .redrive(&LetterFilter::new().ids([ids[6]]), &Operator::default())
        .unwrap();
    counted(&worker, "the redriven one to be done", |counts| {
        counts.done == 4
    });
    stop(worker);
    test.client()
        .execute(
            "UPDATE redrive.dead_letters SET died_at = died_at - interval '7 days' WHERE id = $1",
            &[&ids[3].get()],
        )
        .unwrap();
    db.dlq()
        .capture(
            &ForeignFailure::new("webhook", "1", "orders", "webhook", b"{broken".as_slice())
                .error("C", "card declined"),
        )
        .unwrap();
    test
}

fn with_search_path(test: &TestDatabase) -> Client {
    let mut client = test.client();
    client.sql("SET search_path = redrive");
    client
}

#[test]
fn the_failures_view_counts_the_last_24_hours_by_cause() {
    let test = friday_evening();
    let rows = with_search_path(&test)
        .query(FAILURES_BY_REASON, &[])
        .unwrap();
    let mut found: Vec<(String, i64)> = rows
        .iter()
        .map(|row| (row.get("error_reason"), row.get("count")))
        .collect();
    assert!(found.is_sorted_by_key(|(_, count)| -count), "{found:?}");
    found.sort();
    let expected = [
        ("card declined", 4),
        ("gateway down", 1),
        ("no such customer", 2),
    ];
    assert_eq!(
        found,
        expected.map(|(reason, count)| (reason.to_owned(), count))
    );
}

#[test]
fn the_failure_rate_view_groups_by_event_type() {
    let test = friday_evening();
    let rows = with_search_path(&test)
        .query(FAILURE_RATE_BY_TYPE, &[])
        .unwrap();
    let mut found: Vec<(String, [i64; 3])> = rows
        .iter()
        .map(|row| {
            (
                row.get("event_type"),
                [row.get("succeeded"), row.get("pending"), row.get("failed")],
            )
        })
        .collect();
    found.sort();
    assert_eq!(
        found,
        [
            ("order".to_owned(), [1, 0, 6]),
            ("webhook".to_owned(), [0, 0, 1])
        ]
    );
}

#[test]
fn the_retry_loop_view_lists_events_that_keep_failing() {
    let test = friday_evening();
    let mut client = with_search_path(&test);
    for retries in [5, 6, 34] {
        client
            .execute(
                "INSERT INTO dlq_events (event_type, payload, error_reason, retry_count) VALUES ('order', '{}', 'down', $1)",
                &[&retries],
            )
            .unwrap();
    }
    let rows = client.query(STUCK_IN_RETRY_LOOP, &[]).unwrap();
    let columns: Vec<&str> = rows[0]
        .columns()
        .iter()
        .map(postgres::Column::name)
        .collect();
    // The published ten, and the queue.
    let expected = [
        "id",
        "event_type",
        "payload",
        "error_reason",
        "error_stacktrace",
        "status",
        "retry_count",
        "retry_after",
        "created_at",
        "updated_at",
        "queue",
    ];
    assert_eq!(columns, expected);
    let retries: Vec<i32> = rows.iter().map(|row| row.get("retry_count")).collect();
    assert_eq!(retries, [6, 34]);
}

#[test]
fn a_live_job_is_no_event() {
    let test = TestDatabase::migrated();
    let id = one_death(&test, || Failure::retry("down"));
    let events = |client: &mut Client| scalar(client, "SELECT count(*) FROM dlq_events");
    let mut client = with_search_path(&test);
    assert_eq!(events(&mut client), 1);
    let filter = LetterFilter::new().ids([redrive::JobId::new(id)]);
    let queue = test.queue("orders");
    let dlq = queue.database().dlq();
    dlq.redrive(&filter, &Operator::default()).unwrap();
    assert_eq!(events(&mut client), 0, "its job waits");
    let retrying = worker(&queue)
        .backoff(Backoff::fixed(Duration::from_hours(1)))
        .handle(|_: &Job<Order>| Err(Failure::retry("still down")))
        .started();
    counted(&retrying, "a failure", |counts| counts.retried == 1);
    stop(retrying);
    assert_eq!(events(&mut client), 0, "it waits for its retry");
}

/// The status and the retries of an event.
fn event(test: &TestDatabase, id: i64) -> (String, i32) {
    let row = with_search_path(test)
        .query_one(
            "SELECT status, retry_count FROM dlq_events WHERE id = $1",
            &[&id],
        )
        .unwrap();
    (row.get("status"), row.get("retry_count"))
}

/// Enqueues an order that fails, waits for its death, and returns its id.
fn one_death(test: &TestDatabase, failure: fn() -> Failure) -> i64 {
    let queue = test.queue("orders");
    let worker = worker(&queue)
        .backoff(Backoff::fixed(Duration::ZERO))
        .handle(move |_: &Job<Order>| Err(failure()))
        .started();
    let job = NewJob::new(&Order { number: 1 }).unwrap().max_attempts(3);
    let id = ids(&queue.enqueue_jobs(&[job]).unwrap())[0].get();
    counted(&worker, "it to die", |counts| counts.dead == 1);
    stop(worker);
    id
}

#[test]
fn the_retries_of_all_generations_are_counted() {
    let test = TestDatabase::migrated();
    let id = one_death(&test, || Failure::retry("down"));
    assert_eq!(event(&test, id), ("FAILED_PERMANENTLY".to_owned(), 3));
    let redrive = || {
        let filter = LetterFilter::new().ids([redrive::JobId::new(id)]);
        test.queue("orders")
            .database()
            .dlq()
            .redrive(&filter, &Operator::default())
            .unwrap();
    };
    redrive();
    let worker = worker(&test.queue("orders"))
        .backoff(Backoff::fixed(Duration::ZERO))
        .handle(|_: &Job<Order>| Err(Failure::reject("down")))
        .started();
    counted(&worker, "it to die again", |counts| counts.dead == 1);
    stop(worker);
    assert_eq!(event(&test, id), ("FAILED_PERMANENTLY".to_owned(), 4));
}

#[test]
fn a_letter_is_pending_while_its_policy_will_redrive_it_again() {
    let test = TestDatabase::migrated();
    let id = one_death(&test, || Failure::retry("down"));
    assert_eq!(event(&test, id), ("FAILED_PERMANENTLY".to_owned(), 3));
    let mut client = test.client();
    let tick = "SELECT letters FROM redrive.run_policies()";
    client.sql("SELECT redrive.set_policy('s', '{\"queue\": \"orders\"}', '6 hours', 50, 2)");
    for (generation, status) in [(1, "PENDING"), (2, "FAILED_PERMANENTLY")] {
        client.sql("UPDATE redrive.policies SET next_at = now()");
        assert_eq!(client.query_one(tick, &[]).unwrap().get::<_, i64>(0), 1);
        let failing = worker(&test.queue("orders"))
            .backoff(Backoff::fixed(Duration::ZERO))
            .handle(|_: &Job<Order>| Err(Failure::reject("down")))
            .started();
        counted(&failing, "it to die again", |counts| counts.dead == 1);
        stop(failing);
        assert_eq!(event(&test, id).0, status, "generation {generation}");
    }
    let wait = "SELECT count(*) FROM redrive.dlq_events WHERE retry_after IS NULL";
    assert_eq!(scalar(&mut client, wait), 1, "no policy redrives it");
}
