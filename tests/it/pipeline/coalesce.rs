//! Enqueues of several threads share statements.

use std::collections::HashSet;
use std::thread;

use redrive::JobId;
use redrive_tests::{Order, TestDatabase};

#[test]
fn threads_that_enqueue_at_the_same_time_each_get_the_id_of_their_own_job() {
    let (test, queue) = TestDatabase::with_orders();
    let stored: Vec<(JobId, i64)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..24_i64)
            .map(|thread| {
                let queue = &queue;
                scope.spawn(move || {
                    let enqueue = |n| {
                        let number = thread * 100 + n;
                        (queue.enqueue(&Order { number }).unwrap(), number)
                    };
                    (0..20).map(enqueue).collect::<Vec<_>>()
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    let rows = test.client().query(
        "SELECT id, (payload ->> 'number')::bigint, xmin::text FROM redrive.jobs",
        &[],
    );
    let rows = rows.unwrap();
    let mut in_database: Vec<(JobId, i64)> = rows
        .iter()
        .map(|row| (JobId::new(row.get(0)), row.get(1)))
        .collect();
    in_database.sort();
    let mut stored = stored;
    stored.sort();
    assert_eq!(in_database, stored);
    let transactions: HashSet<String> = rows.iter().map(|row| row.get(2)).collect();
    assert!(
        transactions.len() < rows.len(),
        "no two threads shared a statement"
    );
}
