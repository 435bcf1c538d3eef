//! Ready jobs that have waited for the configured time get a higher priority, if there is one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postgres::Client;
use redrive::{Job, NewJob};
use redrive_tests::{
    Begin, Order, SOON, Sql, TestDatabase, counted, new_order, no_drift, scalar, stop, wait_until,
    worker,
};

/// Raises jobs of the queue `orders` that have waited for a minute to priority 0.
fn age(client: &mut Client, after_rank: Option<i32>, most: i64) -> (i64, Option<i32>) {
    let ask = "SELECT aged, rank FROM redrive.age_jobs('orders', 60000, 0, $1, $2)";
    let row = client.query_one(ask, &[&after_rank, &most]).unwrap();
    (row.get("aged"), row.get("rank"))
}

/// Ages the jobs of every rank. Returns the ranks and how many were raised.
fn age_all(client: &mut Client) -> Vec<(i32, i64)> {
    let mut ranks = Vec::new();
    let mut after = None;
    while let (aged, Some(rank)) = age(client, after, 500) {
        ranks.push((rank, aged));
        after = Some(rank);
    }
    ranks
}

/// Each job: kind, priority, and the header with its earlier priority.
fn priorities(client: &mut Client) -> Vec<(String, i16, Option<String>)> {
    let ask = "SELECT kind::text, priority::smallint, headers ->> 'redrive-priority' FROM redrive.live_jobs ORDER BY kind";
    let rows = client.query(ask, &[]).unwrap();
    rows.iter()
        .map(|row| (row.get(0), row.get(1), row.get(2)))
        .collect()
}

/// Makes the jobs of a priority an hour older.
fn wait_an_hour(client: &mut Client, priority: i16) {
    let older = "UPDATE redrive.jobs SET meta.ready_at = coalesce((meta).ready_at, enqueued_at) - interval '1 hour' \
                 WHERE coalesce((meta).priority, 0) = $1::smallint";
    client.change(older, &[&priority]);
}

#[test]
fn a_job_behind_an_endless_supply_runs_once_it_has_waited_for_the_time() {
    let (test, queue) = TestDatabase::with_orders();
    let supply: Vec<Order> = (0..2000).map(|_| Order { number: 1 }).collect();
    queue.enqueue_many(&supply).unwrap();
    let low = new_order(0).priority(-10);
    queue.enqueue_job(low).unwrap();
    let ran = Arc::new(AtomicBool::new(false));

    let (low_ran, orders) = (Arc::clone(&ran), queue.clone());
    let worker = worker(&queue)
        .lease(Duration::from_secs(2))
        .age_priorities(Duration::from_mins(1), 0)
        .runs(move |job: &Job<Order>| {
            match job.payload().number {
                0 => low_ran.store(true, Ordering::SeqCst),
                _ => drop(orders.enqueue(&Order { number: 1 }).unwrap()),
            }
            Ok(())
        });
    counted(&worker, "a part of the supply", |counts| counts.done >= 500);
    assert!(
        !ran.load(Ordering::SeqCst),
        "it has not waited for the time"
    );
    wait_an_hour(&mut test.client(), -10);
    wait_until("the job of the low priority to run", SOON, || {
        ran.load(Ordering::SeqCst)
    });
    stop(worker);
    no_drift(queue.database());
}

#[test]
fn each_job_is_raised_once_and_its_header_keeps_the_earlier_priority() {
    let (_test, mut client) = TestDatabase::with_client();
    client.sql("INSERT INTO redrive.jobs (segment, rank, queue, kind, payload, meta.priority, meta.generation, meta.ready_at, meta.headers)
             SELECT 0, (k.generation > 0)::integer - 2 * k.priority, k.queue, k.kind, '{}', k.priority, k.generation, now() - k.waited * interval '1 minute',
                    k.headers::jsonb
             FROM (VALUES
                ('orders', 'a low', -10, 0, 2, NULL), ('orders', 'b young', -10, 0, 0, NULL),
                ('orders', 'c with headers', -3, 0, 2, '{\"trace\": \"x\"}'), ('orders', 'd equal', 0, 0, 2, NULL),
                ('orders', 'e equal and redriven', 0, 1, 2, NULL), ('orders', 'f low and redriven', -10, 2, 2, NULL),
                ('orders', 'g high', 5, 0, 2, NULL), ('mails', 'h elsewhere', -10, 0, 2, NULL)
             ) AS k (queue, kind, priority, generation, waited, headers)");
    assert_eq!(age_all(&mut client), [(1, 1), (6, 1), (20, 1), (21, 1)]);
    let aged = priorities(&mut client);
    let shown: Vec<(&str, i16, Option<&str>)> = aged
        .iter()
        .map(|(kind, priority, header)| (&**kind, *priority, header.as_deref()))
        .collect();
    assert_eq!(
        shown,
        [
            ("a low", 0, Some("-10")),
            ("b young", -10, None),
            ("c with headers", 0, Some("-3")),
            ("d equal", 0, None),
            ("e equal and redriven", 1, Some("0")),
            ("f low and redriven", 1, Some("-10")),
            ("g high", 5, None),
            ("h elsewhere", -10, None),
        ]
    );
    let kept = "SELECT count(*) FROM redrive.live_jobs WHERE kind = 'c with headers' AND headers ->> 'trace' = 'x'";
    assert_eq!(scalar(&mut client, kept), 1);
    // A second worker finds nothing to do.
    assert_eq!(age_all(&mut client), [(20, 0)]);
    assert_eq!(priorities(&mut client), aged);
}

#[test]
fn a_call_raises_at_most_its_number_of_jobs_and_skips_locked_ones() {
    let (test, queue) = TestDatabase::with_orders();
    let (mut client, mut other) = (test.client(), test.client());
    let jobs: Vec<NewJob> = (0..5)
        .map(|_| NewJob::raw("order", "{}").unwrap().priority(-1))
        .collect();
    queue.enqueue_jobs(&jobs).unwrap();
    wait_an_hour(&mut client, -1);
    assert_eq!(age(&mut client, None, 2), (2, Some(2)));
    let mut claiming = other.transaction().unwrap();
    let lock =
        "SELECT id FROM redrive.jobs WHERE (meta).priority = -1 ORDER BY id LIMIT 1 FOR UPDATE";
    claiming.query_one(lock, &[]).unwrap();
    assert_eq!(age(&mut client, None, 2), (1, Some(2)));
    claiming.rollback().unwrap();
    assert_eq!(age(&mut client, None, 2), (2, Some(2)));
    assert_eq!(age(&mut client, None, 2), (0, None));
}
