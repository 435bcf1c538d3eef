//! Isolation levels: what reads after taking a lock refuses a snapshot older than the lock.

use redrive_tests::prelude::*;

const LEVELS: [&str; 2] = ["REPEATABLE READ", "SERIALIZABLE"];

const REFUSING: [&str; 9] = [
    "SELECT redrive.turn_ring(8192, 1000)",
    "SELECT redrive.fold_metrics()",
    "SELECT redrive.fold_letters()",
    "SELECT redrive.prune_groups('1 day')",
    "SELECT redrive.audit_counters()",
    "SELECT redrive.repair()",
    "SELECT redrive.metric_totals()",
    "SELECT redrive.compact()",
    "SELECT redrive.is_drained('{orders}')",
];

#[test]
fn a_transaction_with_an_old_snapshot_is_refused() {
    let (_test, mut client) = TestDatabase::with_client();
    for statement in REFUSING {
        for level in LEVELS {
            // The error names the isolation level.
            for says in ["25000", level] {
                client.sql(&format!("BEGIN ISOLATION LEVEL {level}"));
                client.refuses(statement, &[], says);
                client.sql("ROLLBACK");
            }
        }
        client.sql(statement);
    }
}

#[test]
fn calls_succeed_at_a_stricter_default_level() {
    for level in LEVELS {
        let test = TestDatabase::migrated();
        test.sets(&format!("default_transaction_isolation = '{level}'"));
        let queue = test.queue("orders");
        let job = NewJob::new(&Order { number: 1 }).unwrap();
        let job = job.unique("order 1").unique_window(HOUR);
        let enqueue = || (0..25).map(|_| queue.enqueue_job(&job).unwrap().id());
        let mut ids = at_once(4, |_| (), |()| enqueue().collect::<Vec<_>>()).concat();
        ids.dedup();
        assert_eq!(ids.len(), 1, "{level}");
        // The database refuses these two at that level.
        assert!(!queue.is_drained().unwrap());
        no_drift(queue.database());
    }
}
