//! Ready jobs that have waited for the configured time get a higher priority, if there is one.

use redrive_tests::prelude::*;

/// Raises jobs of the queue `orders` that have waited for a minute to priority 0. Returns how many were raised.
fn age(client: &mut Client, most: i64) -> i64 {
    client.ask("SELECT redrive.age_jobs('orders', 60000, 0, $1)", &[&most])
}

/// Each job: kind and priority.
fn priorities(client: &mut Client) -> Vec<(String, i16)> {
    let ask = "SELECT kind::text, priority::smallint FROM redrive.live_jobs ORDER BY kind";
    client.rows(ask, &[])
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
    queue.enqueue_jobs(&vec![new_order(1); 2000]).unwrap();
    let low = put(&queue, new_order(0).priority(-10));
    let (tally, orders) = (Tally::new(), queue.clone());
    let counts = tally.counting();
    let builder = lively(&queue).age_priorities(Duration::from_mins(1), 0);
    let worker = builder.runs(move |job: &Job<Order>| {
        if job.payload().number == 1 {
            orders.enqueue(job.payload())?;
        }
        counts(job)
    });
    counted(&worker, "a part of the supply", |counts| counts.done >= 500);
    assert_eq!(tally.of(low), 0, "it has not waited for the time");
    wait_an_hour(&mut test.client(), -10);
    wait_until("the low priority to run", SOON, || tally.of(low) == 1);
    stop(worker);
    no_drift(queue.database());
}

#[test]
fn each_job_is_raised_once() {
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
    assert_eq!(age(&mut client, 500), 4, "of four ranks");
    let aged = priorities(&mut client);
    let expected = [
        ("a low", 0),
        ("b young", -10),
        ("c with headers", 0),
        ("d equal", 0),
        ("e equal and redriven", 1),
        ("f low and redriven", 1),
        ("g high", 5),
        ("h elsewhere", -10),
    ];
    let found = aged.iter();
    let found = found.map(|(kind, priority)| (&**kind, *priority));
    assert!(found.eq(expected), "{aged:?}");
    let kept = "live_jobs WHERE kind = 'c with headers' AND headers ->> 'trace' = 'x'";
    assert_eq!(client.count(kept), 1);
    // A second worker finds nothing to do.
    assert_eq!(age(&mut client, 500), 0);
    assert_eq!(priorities(&mut client), aged);
}

#[test]
fn a_locked_job_keeps_no_other_from_being_raised() {
    let (test, queue, mut client) = TestDatabase::with_session();
    let low = vec![new_order(1).priority(-1); 3];
    queue.enqueue_jobs(&low).unwrap();
    wait_an_hour(&mut client, -1);
    let mut claiming = test.begins("SELECT FROM redrive.jobs ORDER BY id LIMIT 1 FOR UPDATE");
    assert_eq!(age(&mut client, 500), 2);
    claiming.sql("ROLLBACK");
    assert_eq!(age(&mut client, 500), 1);
}

#[test]
fn a_batch_ends_a_call_and_the_next_one_continues() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    for priority in [-1, -1, -2, -3] {
        put(&queue, new_order(1).priority(priority));
        wait_an_hour(&mut client, priority);
    }
    let aged = [(); 4].map(|()| age(&mut client, 2));
    assert_eq!(aged, [2, 2, 0, 0]);
}
