//! The view `dlq_events`: the usual analysis queries, and the status of each failure.

mod archive;
mod changes;
mod operators;
mod sessions;

use redrive_tests::prelude::*;

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

/// A database with failures of many kinds. One is fixed, and one is a week old.
fn friday_evening() -> TestDatabase {
    let (test, db) = TestDatabase::opened();
    test.sql(
        "INSERT INTO redrive.dead_letters (queue, kind, cause, error_class, state, error_message, payload, enqueued_at, died_at)
         SELECT 'orders', 'order', 'rejected', 'Rejected', l.state, l.message, '{}', now(), now() - l.days * interval '1 day'
         FROM (VALUES ('open', 'card declined', 0, 3), ('open', 'card declined', 7, 1), ('open', 'no such customer', 0, 2),
                      ('recovered', 'gateway down', 0, 1)) l (state, message, days, letters), generate_series(1, l.letters)",
    );
    let broken = ForeignFailure::new("webhook", "1", "orders", "webhook", *b"{broken");
    db.captures(&broken.error("C", "card declined"));
    test
}

fn with_search_path(test: &TestDatabase) -> Client {
    let mut client = test.client();
    client.sql("SET search_path = redrive");
    client
}

#[test]
fn the_view_answers_the_usual_questions() {
    let test = friday_evening();
    let mut client = with_search_path(&test);
    let found: Vec<(String, i64)> = client.rows(FAILURES_BY_REASON, &[]);
    let found = found.iter().map(|(reason, count)| (&**reason, *count));
    let expected = [
        ("card declined", 4),
        ("no such customer", 2),
        ("gateway down", 1),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);

    let mut found: Vec<(String, i64, i64, i64)> = client.rows(FAILURE_RATE_BY_TYPE, &[]);
    found.sort();
    let (order, webhook) = ("order".to_owned(), "webhook".to_owned());
    assert_eq!(found, [(order, 1, 0, 6), (webhook, 0, 0, 1)]);

    for retries in [5, 6, 34] {
        client.change("INSERT INTO dlq_events (event_type, payload, error_reason, retry_count) VALUES ('order', '{}', 'down', $1)", &[&retries]);
    }
    let rows = client.query(STUCK_IN_RETRY_LOOP, &[]).unwrap();
    let columns = rows[0].columns().iter().map(postgres::Column::name);
    let columns: Vec<&str> = columns.collect();
    // The published ten, and the queue.
    let expected = "id event_type payload error_reason error_stacktrace status retry_count retry_after \
                    created_at updated_at queue";
    assert_eq!(columns.join(" "), expected);
    let retries: Vec<i32> = rows.iter().map(|row| row.get("retry_count")).collect();
    assert_eq!(retries, [6, 34]);
}

/// The status and the retries of an event.
fn event(test: &TestDatabase, id: i64) -> (String, i32) {
    let event = "SELECT status, retry_count FROM redrive.dlq_events WHERE id = $1";
    test.client().row(event, &[&id])
}

/// Enqueues an order that fails, waits for its death, and returns its id.
fn one_death(test: &TestDatabase, failure: fn() -> Failure) -> i64 {
    let queue = test.queue("orders");
    let id = put(&queue, new_order(1).max_attempts(3));
    work_off(&queue, move |_: &Job<Order>| Err(failure()));
    id.get()
}

#[test]
fn a_letter_is_pending_while_its_policy_will_redrive_it_again() {
    let (test, mut client) = TestDatabase::with_client();
    let id = one_death(&test, || Failure::retry("down"));
    assert_eq!(event(&test, id), ("FAILED_PERMANENTLY".to_owned(), 3));
    let tick = "SELECT letters FROM redrive.trigger_schedule('s')";
    client.sql(
        "SELECT redrive.set_policy('s', '{\"queue\": \"orders\"}', '6 hours', generations => 2)",
    );
    // The retries of all generations count.
    for (status, retries) in [("PENDING", 4), ("FAILED_PERMANENTLY", 5)] {
        assert_eq!(client.ask::<i64>(tick, &[]), 1);
        assert_eq!(client.count("dlq_events"), 0, "its job waits");
        work_off(&test.queue("orders"), |_: &Job<Order>| {
            Err(Failure::reject("down"))
        });
        assert_eq!(event(&test, id), (status.to_owned(), retries));
    }
    let wait = "SELECT count(*) FROM redrive.dlq_events WHERE retry_after IS NULL";
    assert_eq!(scalar(&mut client, wait), 1, "no policy redrives it");
}
