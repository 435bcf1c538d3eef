//! Claim: which jobs a worker claims, how many, and in what order.

use redrive_tests::prelude::*;

#[test]
fn jobs_waiting_behind_a_slow_one_are_released() {
    let (test, queue) = TestDatabase::with_orders();
    let gate = Gate::new();
    let builder = |queue: &Queue| worker(queue).handle(gate.handler());
    let start = |queue: &Queue| builder(queue).runs(|_: &Job<Order>| Ok(()));
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
    assert_eq!(test.untouched(), 100);
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
    let worker = worker(&queue).hold_for(HOUR).handle(gate.handler());
    let worker = worker.handle_any(|_| Ok(())).started();
    // Quick jobs first, so that it claims in batches.
    let warm = vec![NewJob::raw("warm", "{}").unwrap(); 150];
    queue.enqueue_jobs(&warm).unwrap();
    done(&worker, 150);
    let big = format!("\"{}\"", "x".repeat(1_000_000));
    let mut jobs = vec![NewJob::new(&Hold {}).unwrap().priority(1)];
    jobs.resize(31, NewJob::raw("big", &big).unwrap());
    queue.enqueue_jobs(&jobs).unwrap();
    gate.wait_for(1);
    wait_until("a second claim, if there is one, to be over", SOON, || {
        stats(queue.database(), "orders").is_some_and(|now| now.leased > 1)
    });
    let largest = "SELECT max(job_count)::bigint FROM redrive.leases";
    let largest = scalar(&mut test.client(), largest);
    assert!((2..=10).contains(&largest), "{largest} jobs of 1 MB");
    gate.open();
    finish(&queue, worker);
}

#[test]
fn a_job_that_commits_late_is_found_below_the_mark() {
    let (_test, queue, mut client) = TestDatabase::with_session();
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
