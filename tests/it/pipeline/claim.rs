//! Claim: which jobs a worker claims, how many, and in what order.

use std::time::Duration;

use redrive::{Job, NewJob, Queue};
use redrive_tests::{
    Begin, Gate, Hold, Order, SOON, Tally, TestDatabase, done, drained, finish, new_order, scalar,
    stats, stop, wait_until, willing, worker,
};

#[test]
fn slow_jobs_are_claimed_one_per_slot() {
    let (test, queue) = TestDatabase::with_orders();
    queue.enqueue_many(&[Hold {}; 20]).unwrap();
    let gate = Gate::new();
    let start = || worker(&test.queue("orders")).slots(3).runs(gate.handler());
    let one = start();
    gate.wait_for(3);
    let now = stats(queue.database(), "orders").expect("a busy queue");
    assert_eq!(
        (now.leased, now.ready),
        (3, 17),
        "no job waits in a process while another could run it"
    );
    let other = start();
    gate.wait_for(6);
    let now = stats(queue.database(), "orders").expect("a busy queue");
    assert_eq!((now.leased, now.ready), (6, 14));
    gate.open();
    let done = finish(&queue, one).stats.done + stop(other).stats.done;
    assert_eq!(done, 20);
}

#[test]
fn jobs_waiting_behind_a_slow_one_are_released() {
    let (test, queue) = TestDatabase::with_orders();
    let gate = Gate::new();
    let start = |queue: &Queue| {
        worker(queue)
            .handle(gate.handler())
            .runs(|_: &Job<Order>| Ok(()))
    };
    let one = start(&queue);
    // Quick jobs first, so that it claims in batches.
    queue.enqueue_many(&Order::up_to(150)).unwrap();
    done(&one, 150);
    let mut jobs = vec![NewJob::new(&Hold {}).unwrap().priority(1)];
    jobs.resize(101, new_order(1));
    queue.enqueue_jobs(&jobs).unwrap();
    gate.wait_for(1);
    // The worker may have claimed some of them: in the end it holds only the slow one.
    wait_until("all others to be ready", SOON, || {
        stats(queue.database(), "orders").is_some_and(|now| (now.leased, now.ready) == (1, 100))
    });
    let untouched = "SELECT count(*) FROM redrive.jobs WHERE coalesce((meta).attempt, (meta).refunds, (meta).crashes) IS NULL";
    let untouched = scalar(&mut test.client(), untouched);
    assert_eq!(untouched, 100);
    // It does not claim them again while it cannot run them; another worker does.
    let other = start(&test.queue("orders"));
    done(&other, 100);
    gate.open();
    drained(&queue);
    let (one, other) = (stop(one).stats, stop(other).stats);
    assert_eq!((one.done, one.lost, one.released), (151, 0, 100));
    assert_eq!((other.done, other.lost), (100, 0));
}

#[test]
fn the_size_of_payloads_limits_a_claim() {
    let (test, queue) = TestDatabase::with_orders();
    let gate = Gate::new();
    let worker = worker(&queue)
        .hold_for(Duration::from_hours(1))
        .handle(gate.handler())
        .handle_any(|_| Ok(()))
        .started();
    // Quick jobs first, so that it claims in batches.
    queue
        .enqueue_jobs(&vec![NewJob::raw("warm", "{}").unwrap(); 150])
        .unwrap();
    done(&worker, 150);
    let big = format!("\"{}\"", "x".repeat(1_000_000));
    let mut jobs = vec![NewJob::new(&Hold {}).unwrap().priority(1)];
    jobs.resize(31, NewJob::raw("big", &big).unwrap());
    queue.enqueue_jobs(&jobs).unwrap();
    gate.wait_for(1);
    wait_until("a second claim, if there is one, to be over", SOON, || {
        stats(queue.database(), "orders").is_some_and(|now| now.leased > 1)
    });
    let largest = scalar(
        &mut test.client(),
        "SELECT max(job_count)::bigint FROM redrive.leases",
    );
    assert!(
        (2..=10).contains(&largest),
        "{largest} jobs of a megabyte in one lease"
    );
    gate.open();
    finish(&queue, worker);
}

#[test]
fn a_locked_job_is_skipped() {
    let (test, queue) = TestDatabase::with_orders();
    let ids = queue.enqueue_many(&Order::up_to(5)).unwrap();
    let mut client = test.client();
    let mut tx = client.transaction().unwrap();
    tx.query(
        "SELECT FROM redrive.jobs WHERE id = $1 FOR UPDATE",
        &[&ids[0].get()],
    )
    .unwrap();
    let tally = Tally::new();
    let worker = worker(&queue).runs(tally.counting());
    done(&worker, 4);
    assert_eq!(tally.of(ids[0]), 0);
    tx.rollback().unwrap();
    finish(&queue, worker);
    assert_eq!(tally.of(ids[0]), 1);
}

#[test]
fn a_job_that_commits_late_is_found_below_the_mark() {
    let (test, queue) = TestDatabase::with_orders();
    let mut client = test.client();
    let mut tx = client.transaction().unwrap();
    let late = queue.enqueue_in(&mut tx, &Order { number: 1 }).unwrap();
    let worker = willing(&queue);
    let ids = queue.enqueue_many(&Order::up_to(3000)).unwrap();
    assert!(late < ids[0]);
    done(&worker, 3000);
    tx.commit().unwrap();
    done(&worker, 3001);
    stop(worker);
}
