//! Promotions pass dead rows that a snapshot keeps, and lose no job that lies below their marks.

use redrive_tests::prelude::*;

/// Leaves dead rows of jobs that are due after this time, relative to now.
fn leave_dead(client: &mut Client, from: &str, jobs: i64) {
    let store = "INSERT INTO redrive.jobs_delayed (run_at, queue, kind, payload) \
                 SELECT now() + $1::text::interval + n * interval '1 microsecond', 'orders', 'order', '{}' \
                 FROM generate_series(1, $2::bigint) n";
    client.change(store, &[&from, &jobs]);
    client.sql("DELETE FROM redrive.jobs_delayed");
    client.sql("VACUUM redrive.jobs_delayed");
}

/// Stores a delayed job that is due after this time, relative to now. Returns its id.
fn delay(client: &mut impl GenericClient, by: &str) -> i64 {
    let store = "INSERT INTO redrive.jobs_delayed (run_at, queue, kind, payload) \
                 VALUES (clock_timestamp() + $1::text::interval, 'orders', 'order', '{\"number\": 1}') RETURNING id";
    client.ask(store, &[&by])
}

/// Promotes up to this many jobs after calls that failed in so many milliseconds. Returns how many it moved, and
/// whether the queue has a mark then.
fn promote(client: &mut Client, most: i64, failed_ms: i64) -> (i64, bool) {
    let values: [&(dyn ToSql + Sync); 4] = [&"orders", &most, &10_000_i64, &failed_ms];
    let row = client.query_one(statement("promote"), &values).unwrap();
    let whole_in: Option<i64> = row.get("whole_in_ms");
    (row.get("moved"), whole_in.is_some())
}

/// Stores a mark at this time, relative to now. The jobs before it are promoted at the other one.
fn mark(client: &mut Client, by: &str, whole_by: &str) {
    let store = "INSERT INTO redrive.delayed_marks (queue, run_at, whole_at, noted_at) \
                 VALUES ('orders', now() + $1::text::interval, now() + $2::text::interval, now() - interval '1 minute') \
                 ON CONFLICT (queue) DO UPDATE \
                 SET run_at = excluded.run_at, whole_at = excluded.whole_at, noted_at = excluded.noted_at";
    client.change(store, &[&by, &whole_by]);
}

/// Whether the mark is at this time or before, relative to now.
fn is_marked_at(client: &mut Client, by: &str) -> bool {
    let marked = "SELECT run_at <= now() + $1::text::interval FROM redrive.delayed_marks";
    client.ask(marked, &[&by])
}

#[test]
fn promotions_of_a_large_table_start_at_the_mark() {
    let (_test, mut client) = TestDatabase::with_client();
    mark(&mut client, "-1 hour", "1 hour");
    delay(&mut client, "-2 hours");
    assert_eq!(promote(&mut client, 10, 0), (1, false), "a small table");
    let store = "INSERT INTO redrive.jobs_delayed (run_at, queue, kind, payload) \
                 SELECT now() + interval '1 day', 'other', 'order', '{}' FROM generate_series(1, 300000)";
    client.sql(store);
    mark(&mut client, "-1 hour", "1 hour");
    for by in ["-2 hours", "-10 minutes", "-9 minutes", "-8 minutes"] {
        delay(&mut client, by);
    }
    assert_eq!(promote(&mut client, 1, 0), (1, true));
    // That of the last job.
    assert!(is_marked_at(&mut client, "-599 seconds"));
    assert_eq!(promote(&mut client, 10, 0), (2, true));
    // The clock of the server was set back.
    mark(&mut client, "1 hour", "1 hour");
    delay(&mut client, "-1 second");
    assert_eq!(promote(&mut client, 10, 0), (1, true));
    assert!(is_marked_at(&mut client, "-5 seconds"));
    // One that reads all due jobs in time needs no mark.
    wait_until("a promotion that is fast enough", SOON, || {
        mark(&mut client, "-1 hour", "-1 second");
        !promote(&mut client, 10, 0).1
    });
    assert_eq!(client.count("delayed_marks"), 0);
    assert_eq!(client.count("jobs"), 6);
    // After a call that took too long, the next one does not read all.
    mark(&mut client, "-1 hour", "-1 second");
    for by in ["-2 hours", "-10 minutes", "-9 minutes", "-8 minutes"] {
        delay(&mut client, by);
    }
    assert_eq!(promote(&mut client, 10, 4000), (3, true));
    delay(&mut client, "-10 minutes");
    // If one that starts at the mark fails as well, the next one does not.
    assert_eq!(promote(&mut client, 10, 60_000), (0, true));
    assert_eq!(promote(&mut client, 10, 0), (0, true));
    let whole = "SELECT whole_at BETWEEN now() + interval '20 seconds' AND now() + interval '40 seconds' FROM redrive.delayed_marks";
    assert!(client.ask::<bool>(whole, &[]));
    // If the clock was set back since, it does not wait for that time.
    client.sql("UPDATE redrive.delayed_marks SET noted_at = noted_at + interval '1 hour'");
    assert_eq!(promote(&mut client, 10, 0).0, 2);
}

#[test]
fn a_promotion_moves_no_more_large_jobs_than_it_can() {
    let (_test, mut client) = TestDatabase::with_client();
    client.sql("ALTER TABLE redrive.jobs_delayed ALTER payload SET STORAGE EXTERNAL");
    let store = "INSERT INTO redrive.jobs_delayed (run_at, queue, kind, payload) \
                 SELECT now() - interval '1 hour', 'orders', 'order', to_json(repeat('x', 1000000)) \
                 FROM generate_series(1, 40)";
    client.sql(store);
    let values: [&(dyn ToSql + Sync); 4] = [&"orders", &1000_i64, &10_000_i64, &0_i64];
    for moves in [(34_i64, Some(0_i64)), (6, None)] {
        let row = client.query_one(statement("promote"), &values).unwrap();
        assert_eq!((row.get("moved"), row.get("next_due_ms")), moves);
    }
}

#[test]
fn a_promoted_job_counts_as_ready_since_it_was_due() {
    let (_test, mut client) = TestDatabase::with_client();
    for by in ["-1 hour", "-1 second"] {
        delay(&mut client, by);
    }
    Hand::of("orders").promotes(&mut client);
    let apart = "SELECT extract(epoch FROM max((j.meta).ready_at) - min((j.meta).ready_at))::bigint FROM redrive.jobs j";
    let apart = scalar(&mut client, apart);
    assert!(apart >= 3599, "{apart} s");
}

#[test]
fn a_worker_passes_dead_rows_and_finds_late_commits_below_its_mark() {
    let (test, queue) = TestDatabase::with_orders();
    let (mut client, mut holder, mut caller) = (test.client(), test.client(), test.client());
    let horizon = snapshot(&mut holder);
    let mut open = caller.transaction().unwrap();
    delay(&mut open, "-2 hours");
    // More than a promotion reads whole.
    leave_dead(&mut client, "-1 hour", 300_000);
    delay(&mut client, "-1 second");
    let tally = Tally::new();
    let first = worker(&queue).runs(tally.counting());
    done(&first, 1);
    let marked = "SELECT EXISTS (SELECT FROM redrive.delayed_marks WHERE queue = 'orders' \
                  AND run_at > now() - interval '30 minutes')";
    wait_until("a worker to store its mark", SOON, || {
        client.ask(marked, &[])
    });
    open.commit().unwrap();
    done(&first, 2);
    // A second process starts at the mark of the first.
    let second = worker(&queue).runs(tally.counting());
    let last = delay(&mut client, "-1 second");
    wait_until("the last job to be done", SOON, || {
        tally.order().iter().any(|job| job.get() == last)
    });
    assert_eq!(tally.order().len(), 3);
    stop(second);
    stop(first);
    horizon.commit().unwrap();
}
