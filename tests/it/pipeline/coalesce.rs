//! Enqueues of several threads share statements.

use redrive_tests::prelude::*;

#[test]
fn threads_that_enqueue_at_the_same_time_each_get_the_id_of_their_own_job() {
    let (test, queue) = TestDatabase::with_orders();
    let enqueue = |thread: usize| {
        let numbers = (0..20).map(|n| i64::try_from(thread).unwrap() * 100 + n);
        let enqueue = |number| (queue.enqueue(&Order { number }).unwrap().get(), number);
        numbers.map(enqueue).collect::<Vec<_>>()
    };
    let mut stored = at_once(24, |thread| thread, enqueue).concat();
    stored.sort_unstable();
    let rows = "SELECT id, (payload ->> 'number')::bigint FROM redrive.jobs ORDER BY id";
    assert_eq!(test.client().rows::<(i64, i64)>(rows, &[]), stored);
    let transactions = "SELECT count(DISTINCT xmin::text) FROM redrive.jobs";
    let transactions = scalar(&mut test.client(), transactions);
    assert!(transactions < 24 * 20, "no two threads shared a statement");
}
