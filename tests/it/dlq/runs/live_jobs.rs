//! Redrive runs beside live jobs: these go first, and a run sends less while they wait for long.

use redrive_tests::prelude::*;

use super::{bury, run, start, unthrottled};

/// A worker that renewed just now and handles orders.
const WORKER: &str = "INSERT INTO redrive.workers (worker_id, queue, host, pid, version, slots, kinds, expires_at)
    VALUES (gen_random_uuid(), 'orders', 'host', 1, '1', 1, '{order}', clock_timestamp() + interval '1 hour')";
const LATE: &str = "UPDATE redrive.jobs SET meta.ready_at = clock_timestamp() - interval '1 minute'
    WHERE (meta).generation IS NULL";

#[test]
fn redriven_jobs_run_after_live_ones_unless_their_priority_is_higher() {
    let (_test, queue) = TestDatabase::with_orders();
    let ids = queue.enqueue_many(&Order::up_to(4)).unwrap();
    work_off(&queue, |_: &Job<Order>| Err(Failure::reject("broken")));
    let urgent = RedriveOptions::new().priority(1);
    let operator = Operator::default().reason("fixed");
    let dlq = queue.database().dlq();
    let last = only(ids[3]);
    let first = dlq.redrive_with(&last, &urgent, &operator).unwrap();
    assert_eq!(first.redriven, [ids[3]]);
    let others = dlq.redrive(&LetterFilter::new(), &operator).unwrap();
    assert_eq!(others.redriven, ids[..3]);
    let jobs = [new_order(20).priority(-1), new_order(10), new_order(11)];
    queue.enqueue_jobs(&jobs).unwrap();
    let (tell, order) = mpsc::channel();
    work_off(&queue, move |job: &Job<Order>| {
        tell.send(job.payload().number).unwrap();
        Ok(())
    });
    assert!(order.try_iter().eq([4, 10, 11, 1, 2, 3, 20]));
}

#[test]
fn an_unthrottled_run_sends_less_while_live_jobs_wait_longer_than_before() {
    let (test, mut client) = TestDatabase::with_client();
    client.sql(WORKER);
    bury(&test, 3000);
    let mut driver = start(&test, &unthrottled());
    let mut sent = 0;
    let mut sends = || {
        let DriveStatus::Running(wait) = driver.step().unwrap() else {
            panic!("the run has ended");
        };
        let now = run(&test, driver.run()).sent;
        let letters = now - sent;
        sent = now;
        (letters, wait)
    };
    // No live job waits.
    let (short, long) = (Duration::from_millis(10), Duration::from_millis(50));
    let (fewest, wait) = sends();
    assert_eq!(wait, short);
    for _ in 0..9 {
        sends();
    }
    let (letters, wait) = sends();
    assert!(letters > fewest && wait == short, "{letters} {wait:?}");
    // A live job waits. Jobs of a kind that no worker handles are no reason.
    let queue = test.queue("orders");
    queue.enqueue(&Order { number: 1 }).unwrap();
    put(&queue, NewJob::raw("unknown", "1").unwrap());
    client.sql(LATE);
    assert_eq!(sends(), (fewest, long));
    client.sql("DELETE FROM redrive.jobs WHERE kind = 'order' AND (meta).generation IS NULL");
    assert_eq!(sends().1, short);
}
