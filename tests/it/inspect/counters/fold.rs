//! Folding: no count is lost or doubled by concurrent folds, writes and reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

use postgres::Client;
use redrive_tests::{Order, Sql, TestDatabase, fold, no_drift, published, snapshot};

const ENQUEUED: &str = "redrive_jobs_enqueued_total{orders}";

fn enqueued(client: &mut Client) -> i64 {
    published(client).get(ENQUEUED).copied().unwrap_or_default()
}

/// Returns the child tables that hold rows, live or dead.
fn children_in_use(client: &mut Client) -> i64 {
    let asked = "SELECT count(*) FROM generate_series(0, 2) n \
                 WHERE pg_relation_size(format('redrive.metric_deltas_%s', n)::regclass) > 0";
    client.ask(asked, &[])
}

#[test]
fn concurrent_folds_inserts_and_readers_lose_no_count() {
    let test = TestDatabase::migrated();
    let over = Arc::new(AtomicBool::new(false));
    let written = Arc::new(AtomicI64::new(0));
    let mut threads = Vec::new();
    for _ in 0..3 {
        let (queue, written) = (test.queue("orders"), Arc::clone(&written));
        threads.push(thread::spawn(move || {
            for number in 0..300 {
                queue.enqueue(&Order { number }).unwrap();
                written.fetch_add(1, Ordering::SeqCst);
            }
        }));
    }
    // Two concurrent folds, with constant rotation.
    let folders: Vec<_> = (0..2)
        .map(|_| {
            let (mut client, over) = (test.client(), Arc::clone(&over));
            thread::spawn(move || {
                let mut folded = 0_i64;
                while !over.load(Ordering::SeqCst) {
                    let row = client.query_one("SELECT redrive.fold_metrics(50, 1)", &[]);
                    folded += row.unwrap().get::<_, i64>(0);
                }
                folded
            })
        })
        .collect();
    let reader = {
        let (mut client, over, written) = (test.client(), Arc::clone(&over), Arc::clone(&written));
        thread::spawn(move || {
            let mut last = 0;
            while !over.load(Ordering::SeqCst) {
                let before = written.load(Ordering::SeqCst);
                let seen = enqueued(&mut client);
                let after = written.load(Ordering::SeqCst) + 3;
                assert!(seen >= last, "it fell from {last} to {seen}");
                assert!(
                    (before..=after).contains(&seen),
                    "{before} <= {seen} <= {after}"
                );
                last = seen;
            }
        })
    };
    for thread in threads {
        thread.join().expect("an enqueuer");
    }
    over.store(true, Ordering::SeqCst);
    reader.join().expect("the reader");
    let folded: i64 = folders
        .into_iter()
        .map(|f| f.join().expect("a folder"))
        .sum();
    let mut client = test.client();
    let rest = fold(&mut client);
    assert_eq!(folded + rest, 900, "each row once");
    assert_eq!(enqueued(&mut client), 900);
    no_drift(&test.open());
}

#[test]
fn a_reader_blocks_only_the_truncation_of_a_child_table() {
    let (test, queue) = TestDatabase::with_orders();
    let (mut client, mut reader) = (test.client(), test.client());
    queue.enqueue(&Order { number: 1 }).unwrap();
    // The rotation follows this fold, and the old child is drained.
    client.sql("SELECT redrive.fold_metrics(100, 1)");
    queue.enqueue(&Order { number: 2 }).unwrap();
    assert_eq!(children_in_use(&mut client), 2);

    let mut reading = reader.transaction().unwrap();
    assert_eq!(reading.ask::<i64>("SELECT sum(value)::bigint FROM redrive.metric_totals() WHERE metric = 'redrive_jobs_enqueued_total'", &[]), 2);
    assert_eq!(fold(&mut client), 1, "the fold does not wait for it");
    assert_eq!(children_in_use(&mut client), 2, "the reader's lock holds");
    assert_eq!(enqueued(&mut client), 2);
    reading.commit().unwrap();
    fold(&mut client);
    assert_eq!(children_in_use(&mut client), 1);
    assert_eq!(enqueued(&mut client), 2);
}

#[test]
fn uncommitted_counts_are_folded_later() {
    let (test, queue) = TestDatabase::with_orders();
    let (mut client, mut slow) = (test.client(), test.client());
    let mut transaction = slow.transaction().unwrap();
    queue
        .enqueue_in(&mut transaction, &Order { number: 1 })
        .unwrap();
    for number in 2..=6 {
        queue.enqueue(&Order { number }).unwrap();
        client.sql("SELECT redrive.fold_metrics(100, 1)");
        assert_eq!(enqueued(&mut client), number - 1);
    }
    // It holds one child; the rotation uses the others.
    assert!(children_in_use(&mut client) <= 3);
    transaction.commit().unwrap();
    fold(&mut client);
    assert_eq!(enqueued(&mut client), 6);
    no_drift(&test.open());
}

#[test]
fn a_fold_works_while_a_snapshot_is_held() {
    let (test, queue) = TestDatabase::with_orders();
    let (mut client, mut holder) = (test.client(), test.client());
    let horizon = snapshot(&mut holder);
    let size = "SELECT sum(pg_relation_size(format('redrive.metric_deltas_%s', n)::regclass))::bigint, \
                       pg_relation_size('redrive.metric_values') FROM generate_series(0, 2) n";
    let mut largest = (0, 0);
    for round in 0..20 {
        for number in 0..20 {
            queue.enqueue(&Order { number }).unwrap();
        }
        client.sql("SELECT redrive.fold_metrics(1000, 8192)");
        let row = client.query_one(size, &[]).unwrap();
        largest = largest.max((row.get::<_, i64>(0), row.get::<_, i64>(1)));
        assert_eq!(enqueued(&mut client), (round + 1) * 20);
    }
    // 400 rows of about 100 bytes would be five pages and more, and each is deleted.
    assert!(largest.0 <= 4 * 8192, "{largest:?}");
    // The updates of a day in one statement; a compaction rewrites the totals.
    client.sql(
        "DO $$ BEGIN FOR n IN 1..600 LOOP
                 UPDATE redrive.metric_values SET last_at = clock_timestamp();
             END LOOP; END $$",
    );
    let before: i64 = client.query_one(size, &[]).unwrap().get(1);
    client.sql("UPDATE redrive.compactions SET min_bytes = 8192; SELECT redrive.compact()");
    let after: i64 = client.query_one(size, &[]).unwrap().get(1);
    assert!(after < before / 4, "{before} -> {after}");
    assert_eq!(enqueued(&mut client), 400);
    horizon.commit().unwrap();
}
