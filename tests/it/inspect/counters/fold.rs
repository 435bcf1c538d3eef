//! Folding: no count is lost or doubled by concurrent folds, writes and reads.

use redrive_tests::prelude::*;

const ENQUEUED: &str = "redrive_jobs_enqueued_total{orders}";

fn enqueued(client: &mut Client) -> i64 {
    published(client).get(ENQUEUED).copied().unwrap_or_default()
}

#[test]
fn concurrent_folds_inserts_and_readers_lose_no_count() {
    let test = TestDatabase::migrated();
    let (over, written) = (&AtomicBool::new(false), &AtomicI64::new(0));
    let folded: i64 = thread::scope(|scope| {
        // With constant rotation.
        let folders = [test.client(), test.client()].map(|mut client| {
            scope.spawn(move || {
                let mut folded = 0;
                while !over.load(Ordering::SeqCst) {
                    folded += scalar(&mut client, "SELECT redrive.fold_metrics(50, 1)");
                }
                folded
            })
        });
        let mut client = test.client();
        let reader = scope.spawn(move || {
            let mut last = 0;
            while !over.load(Ordering::SeqCst) {
                let before = written.load(Ordering::SeqCst);
                let seen = enqueued(&mut client);
                let after = written.load(Ordering::SeqCst) + 3;
                assert!(seen >= last, "it fell from {last} to {seen}");
                let is_right = (before..=after).contains(&seen);
                assert!(is_right, "{before} <= {seen} <= {after}");
                last = seen;
            }
        });
        let enqueue = |queue: Queue| -> redrive::Result<()> {
            for number in 0..300 {
                queue.enqueue(&Order { number })?;
                written.fetch_add(1, Ordering::SeqCst);
            }
            Ok(())
        };
        let stored = at_once(3, |_| test.queue("orders"), enqueue);
        over.store(true, Ordering::SeqCst);
        stored.into_iter().for_each(Result::unwrap);
        reader.join().expect("the reader");
        let folded = folders.map(|it| it.join().expect("a folder"));
        folded.iter().sum()
    });
    let mut client = test.client();
    let rest = fold(&mut client);
    assert_eq!(folded + rest, 900, "each row once");
    assert_eq!(enqueued(&mut client), 900);
    no_drift(&test.open());
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
    transaction.commit().unwrap();
    fold(&mut client);
    assert_eq!(enqueued(&mut client), 6);
    no_drift(&test.open());
}

#[test]
fn a_fold_waits_for_no_session_that_keeps_a_drained_table() {
    let (test, mut client) = TestDatabase::with_client();
    client.sql(
        "INSERT INTO redrive.metric_deltas (segment, queue, keys, counts) \
         SELECT m.segment, 'orders', '{enqueued}', '{1}' FROM redrive.metric_ring m; \
         SELECT setval('redrive.metric_ring_position', (last_value + 1) % 3) FROM redrive.metric_ring_position; \
         ALTER FUNCTION redrive.fold_metrics SET lock_timeout = 0; SET statement_timeout = '60s'",
    );
    let _dump = test.begins("LOCK TABLE redrive.metric_deltas IN ACCESS SHARE MODE");
    // Without a timeout, a lock that it asks for would wait until the statement ends.
    let folded = scalar(&mut client, "SELECT redrive.fold_metrics()::bigint");
    assert_eq!(folded, 1);
}
