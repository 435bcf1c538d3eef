//! Folding: it loses no uncommitted count, and waits for no session.

use redrive_tests::prelude::*;

const ENQUEUED: &str = "redrive_jobs_enqueued_total{orders}";

fn enqueued(client: &mut Client) -> i64 {
    published(client).get(ENQUEUED).copied().unwrap_or_default()
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
    let insert = "INSERT INTO redrive.metric_deltas (queue, keys, counts) VALUES ('orders', '{enqueued}', '{1}'); \
         SELECT setval('redrive.metric_ring_position', (last_value + 1) % 3) FROM redrive.metric_ring_position; \
         ALTER FUNCTION redrive.fold_metrics SET lock_timeout = 0; SET statement_timeout = '60s'";
    client.sql(insert);
    let _dump = test.begins("LOCK TABLE redrive.metric_deltas IN ACCESS SHARE MODE");
    // Without a timeout, a lock that it asks for would wait until the statement ends.
    let folded = scalar(&mut client, "SELECT redrive.fold_metrics()::bigint");
    assert_eq!(folded, 1);
}

#[test]
fn names_stay_however_many_folds_it_takes() {
    let (_test, mut client) = TestDatabase::with_client();
    // One kind more than gets a name. The one that was counted last comes first in the table.
    client.sql(
        "INSERT INTO redrive.metric_deltas (at, queue, keys, labels, counts)
         SELECT now() - n * interval '1 second', 'orders', '{succeeded}', ARRAY['kind ' || n], '{1}'
         FROM generate_series(1, 21) n",
    );
    let kinds = |client: &mut Client| -> Vec<String> {
        let asked = "SELECT labels[2] FROM redrive.metric_totals()
                     WHERE metric = 'redrive_jobs_succeeded_total' ORDER BY 1";
        client.column(asked, &[])
    };
    let named = kinds(&mut client);
    assert_eq!(named.len(), 21, "twenty and the others");
    assert!(!named.contains(&"kind 1".to_owned()), "{named:?}");
    while scalar(&mut client, "SELECT redrive.fold_metrics(1)") > 0 {
        assert_eq!(kinds(&mut client), named);
    }
}
