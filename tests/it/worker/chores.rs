//! Chores: one that fails or hangs affects no other work.

use redrive_tests::prelude::*;

/// A worker that renews often and polls rarely.
fn start(queue: &Queue) -> Worker {
    lively(queue)
        .poll_interval(Duration::from_mins(1))
        .runs(|job: &Job<Order>| match job.payload().number {
            1 => Err(Failure::reject("no such order")),
            _ => Ok(()),
        })
}

/// Replaces the body of the function that folds the counts of letters.
fn break_fold(client: &mut Client, body: &str) {
    client.sql(&format!(
        "CREATE OR REPLACE FUNCTION redrive.fold_letters(max_rows integer DEFAULT 20000)
                 RETURNS bigint LANGUAGE plpgsql
             SET search_path = pg_catalog, pg_temp SET lock_timeout = 0
             AS $$ BEGIN {body}; RETURN 0; END $$"
    ));
}

#[test]
fn a_chore_that_always_fails_stops_no_other() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    break_fold(&mut client, "RAISE EXCEPTION 'broken for a test'");
    // An expired lease of a lost worker, a dead letter to retain, and a letter to count.
    client.sql("INSERT INTO redrive.leases (lease_id, worker_id, queue, claimed_at, ids, kinds, payloads, enqueued_at)
             SELECT gen_random_uuid(), gen_random_uuid(), 'orders', now() - interval '1 hour',
                    '{7}', '{order}', ARRAY['{\"number\": 7}'::json], ARRAY[now()];
             SELECT redrive.set_retention(NULL, 'recovered', '30 days')");
    let worker = start(&queue);
    queue.enqueue_many(&Order::up_to(2)).unwrap();
    counted(&worker, "the jobs and the reaped one", |counts| {
        counts.done == 2 && counts.dead == 1
    });
    let folded =
        "SELECT coalesce(sum(value), 0)::bigint FROM redrive.metric_values WHERE key = 'succeeded'";
    wait_until("the folds", SOON, || scalar(&mut client, folded) == 2);
    let failures = "redrive_chore_failures_total{orders,fold_letters}";
    wait_until("the failure to be counted", SOON, || {
        published(&mut client).get(failures) > Some(&0)
    });
    assert!(client.count("letter_deltas") > 0, "it did nothing");
    let ages = "redrive_chore_seconds{orders,age}";
    let ages = published(&mut client).get(ages).copied();
    assert_eq!(ages.unwrap_or_default(), 0, "no priority ages");
    assert_eq!(worker.failure(), None);
    stop(worker);
}

#[test]
fn a_retention_that_fails_goes_on_with_fewer_letters() {
    let (test, mut client) = TestDatabase::with_client();
    client.sql(
        "INSERT INTO redrive.dead_letters (queue, kind, cause, error_class, error_message, payload, enqueued_at)
             SELECT 'orders', 'order', 'rejected', 'Broken', 'broken', '{}', now() FROM generate_series(1, 1500);
         CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF (SELECT count(*) FROM added) > 1000 THEN RAISE EXCEPTION 'too many for a test'; END IF;
             RETURN NULL; END $$;
         CREATE TRIGGER refuse AFTER INSERT ON redrive.archived_letters
             REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION refuse();
         SELECT redrive.set_retention(NULL, 'open', '0', 'archive')",
    );
    let worker = start(&test.queue("orders"));
    client.reaches("archived_letters", 1500);
    stop(worker);
}

/// The advisory lock for which the broken chore waits.
const HELD: i64 = 8_112_026;

#[test]
fn a_chore_that_hangs_delays_no_renewal_and_no_notification() {
    let (test, mut client) = TestDatabase::with_client();
    let mut holder = test.client();
    holder.change("SELECT pg_advisory_lock($1)", &[&HELD]);
    let hang = format!("PERFORM pg_advisory_xact_lock({HELD})");
    break_fold(&mut client, &hang);
    let queue = test.queue("orders");
    let worker = start(&queue);
    queue.enqueue(&Order { number: 1 }).unwrap();
    let hangs = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    wait_until("the chore to hang", SOON, || {
        scalar(&mut client, hangs) == 1
    });
    // A notification starts it, because the worker polls once a minute.
    queue.enqueue(&Order { number: 2 }).unwrap();
    done(&worker, 1);
    // For two leases.
    super::renewed_for(&mut client, 4000);
    assert_eq!(scalar(&mut client, hangs), 1, "the chore still hangs");
    holder.change("SELECT pg_advisory_unlock($1)", &[&HELD]);
    assert_eq!(stop(worker).stats.lost, 0);
}
