//! The views: the usual analysis queries, and the state of each job.

use std::time::Duration;

use postgres::Client;
use redrive::admin::{Cancelled, JobState};
use redrive::dlq::{ForeignFailure, LetterFilter};
use redrive::{Backoff, Failure, Job, NewJob, Operator};
use redrive_tests::{
    Gate, Hold, Order, SOON, TestDatabase, counted, drained, ids, stats, stop, wait_until, worker,
};

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
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let worker = worker(&queue)
        // Six quick attempts, then a wait.
        .backoff(Backoff::custom(|attempt| {
            Duration::from_secs(if attempt < 6 { 0 } else { 3600 })
        }))
        .handle(fail)
        .start()
        .unwrap();
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
    client.batch_execute("SET search_path = redrive").unwrap();
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
        ("gateway timeout", 2),
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
            ("order".to_owned(), [1, 2, 6]),
            ("webhook".to_owned(), [0, 1, 0])
        ]
    );
}

#[test]
fn the_retry_loop_view_lists_events_that_keep_failing() {
    let test = friday_evening();
    let rows = with_search_path(&test)
        .query(STUCK_IN_RETRY_LOOP, &[])
        .unwrap();
    assert_eq!(rows.len(), 2);
    let columns: Vec<&str> = rows[0]
        .columns()
        .iter()
        .map(postgres::Column::name)
        .collect();
    let published = [
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
    ];
    assert_eq!(columns, published);
    for row in &rows {
        assert_eq!(
            (
                row.get::<_, &str>("event_type"),
                row.get::<_, i32>("retry_count")
            ),
            ("order", 6)
        );
        assert_eq!(row.get::<_, &str>("error_reason"), "gateway timeout");
        let number = row.get::<_, serde_json::Value>("payload")["number"].as_i64();
        assert!(matches!(number, Some(8 | 9)), "{number:?}");
        assert!(
            row.get::<_, std::time::SystemTime>("retry_after")
                > row.get::<_, std::time::SystemTime>("created_at")
        );
    }
    let created = |at: usize| rows[at].get::<_, std::time::SystemTime>("created_at");
    assert!(created(0) <= created(1));
}

#[test]
fn a_job_running_after_a_failure_is_shown_as_processing() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let gate = Gate::new();
    let worker = worker(&queue)
        .handle({
            let gate = gate.clone();
            move |job: &Job<Order>| {
                if job.attempt() == 1 {
                    return Err(Failure::retry("once"));
                }
                gate.pass();
                Ok(())
            }
        })
        .start()
        .unwrap();
    queue.enqueue(&Order { number: 1 }).unwrap();
    gate.wait_for(1);
    let row = with_search_path(&test)
        .query_one(
            "SELECT status, retry_count, error_reason FROM dlq_events",
            &[],
        )
        .unwrap();
    assert_eq!(
        (
            row.get::<_, &str>(0),
            row.get::<_, i32>(1),
            row.get::<_, &str>(2)
        ),
        ("PROCESSING", 1, "once")
    );
    gate.open();
    drained(&queue);
    stop(worker);
    let rows = with_search_path(&test)
        .query("SELECT FROM dlq_events", &[])
        .unwrap();
    assert_eq!(
        rows.len(),
        0,
        "what was done in the end never needed a letter"
    );
}

#[test]
fn every_live_job_is_in_exactly_one_state_at_any_time() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    // Jobs that keep moving: retried at once, retried later, snoozed.
    let worker = worker(&queue)
        .slots(4)
        .handle(
            |job: &Job<Order>| match (job.payload().number + i64::from(job.attempt())) % 3 {
                0 => Err(Failure::retry("at once")),
                1 => Err(Failure::retry("soon").after(Duration::from_millis(1))),
                _ if coin(job.id().get()) => Err(Failure::snooze(Duration::from_millis(1))),
                _ => Err(Failure::retry("again")),
            },
        )
        .start()
        .unwrap();
    let jobs: Vec<_> = Order::up_to(60)
        .iter()
        .map(|order| NewJob::new(order).unwrap().max_attempts(1000))
        .collect();
    queue.enqueue_jobs(&jobs).unwrap();
    let mut client = test.client();
    let mut looks = 0;
    wait_until("a few thousand moves", SOON, || {
        looks += 1;
        let row = client
            .query_one(
                "SELECT count(*), count(DISTINCT id) FROM redrive.live_jobs WHERE queue = 'orders'",
                &[],
            )
            .unwrap();
        assert_eq!(
            (row.get::<_, i64>(0), row.get::<_, i64>(1)),
            (60, 60),
            "at look {looks}"
        );
        let counts = worker.stats();
        assert_eq!((counts.dead, counts.done), (0, 0));
        counts.retried + counts.snoozed >= 3000
    });
    stop(worker);
    assert!(looks > 10, "only {looks} looks");
}

/// Returns a random bit from the clock.
fn coin(salt: i64) -> bool {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    (i64::from(now.subsec_micros()) + salt) % 2 == 0
}

#[test]
fn a_completed_job_is_not_live_while_its_lease_lasts() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let jobs = vec![
        NewJob::new(&Hold {}).unwrap(),
        NewJob::new(&Order { number: 1 }).unwrap(),
    ];
    let ids = ids(&queue.enqueue_jobs(&jobs).unwrap());
    let gate = Gate::new();
    let worker = worker(&queue)
        .slots(2)
        .handle({
            let gate = gate.clone();
            move |_: &Job<Hold>| {
                gate.pass();
                Ok(())
            }
        })
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    counted(&worker, "the quick one to be done", |counts| {
        counts.done == 1
    });
    let mut client = test.client();
    let lease = client.query_one(
        "SELECT job_count, cardinality(done) FROM redrive.leases",
        &[],
    );
    let lease = lease.unwrap();
    assert_eq!(
        (lease.get::<_, i32>(0), lease.get::<_, i32>(1)),
        (2, 1),
        "they share a lease"
    );
    let db = queue.database();
    assert!(db.admin().job(ids[1]).unwrap().is_none());
    assert_eq!(
        db.admin().job(ids[0]).unwrap().expect("it runs").state,
        JobState::Leased
    );
    assert_eq!(stats(db, "orders").expect("a busy queue").leased, 1);
    assert_eq!(db.admin().cancel(ids[1]).unwrap(), Cancelled::NotLive);
    gate.open();
    drained(&queue);
    assert_eq!(stop(worker).stats.done, 2);
}
