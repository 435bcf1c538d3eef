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

/// Returns the microseconds from 1970 to this time, relative to now.
fn micros(client: &mut Client, from: &str) -> i64 {
    let moment =
        "SELECT (extract(epoch FROM clock_timestamp() + $1::text::interval) * 1000000)::bigint";
    client.ask(moment, &[&from])
}

/// Stores a mark, if it is time. Returns how many were stored.
fn store_mark(client: &mut Client, micros: i64) -> usize {
    let values: [&(dyn ToSql + Sync); 2] = [&"orders", &micros];
    let stored = client.query(statement("store_delayed_mark"), &values);
    stored.unwrap().len()
}

#[test]
fn a_mark_in_the_future_is_replaced() {
    let (_test, mut client) = TestDatabase::with_client();
    delay(&mut client, "-1 minute");
    let due = delay(&mut client, "-1 second");
    // The clock of the server was set back.
    client.sql("INSERT INTO redrive.delayed_marks VALUES ('orders', now() + interval '1 hour')");
    let values: [&(dyn ToSql + Sync); 4] = [&"orders", &10_i64, &0_i64, &10_000_i64];
    let row = client.query_one(statement("promote"), &values).unwrap();
    assert_eq!(row.get::<_, i64>("moved"), 1);
    assert_eq!(scalar(&mut client, "SELECT id FROM redrive.jobs"), due);
    let (now, mark): (i64, i64) = (row.get("now_micros"), row.get("mark_micros"));
    assert_eq!(now - mark, 5_000_000);

    client.sql("DELETE FROM redrive.delayed_marks");
    let future = micros(&mut client, "1 hour");
    let stored = "SELECT (extract(epoch FROM run_at) * 1000000)::bigint FROM redrive.delayed_marks";
    assert_eq!(store_mark(&mut client, future), 1);
    let settled = scalar(&mut client, stored);
    assert!(settled <= micros(&mut client, "-5 seconds"));
    // Another process stored one a moment ago.
    assert_eq!(store_mark(&mut client, 1), 0);
    client.sql("UPDATE redrive.delayed_marks SET noted_at = now() - interval '5 seconds'");
    assert_eq!(store_mark(&mut client, 1), 1);
    assert_eq!(client.ask::<i64>(stored, &[]), 1);
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
