//! Slots: a worker runs several jobs at a time, and several workers share a queue.

use std::time::Duration;

use redrive::{Job, JobId, NewJob, Payload};
use redrive_tests::{
    Gate, Hold, Order, SOON, Tally, TestDatabase, counted, drained, statement, stats, stop,
    wait_until, worker,
};

#[test]
fn many_slots_run_jobs_at_the_same_time() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let gate = Gate::new();
    let worker = worker(&queue)
        .slots(16)
        .handle(gate.handler())
        .start()
        .unwrap();
    queue.enqueue_many(&[Hold {}; 16]).unwrap();
    gate.wait_for(16);
    assert!(!worker.is_idle());
    let stats = stats(queue.database(), "orders").expect("a busy queue");
    assert_eq!((stats.leased, stats.workers, stats.slots), (16, 1, 16));
    gate.open();
    counted(&worker, "all done", |counts| counts.done == 16);
    wait_until("the worker to be idle", SOON, || worker.is_idle());
    stop(worker);
}

#[test]
fn several_workers_share_a_queue_and_run_each_job_once() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let tally = Tally::new();
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let tally = tally.clone();
            worker(&test.queue("orders"))
                .slots(2)
                .handle(move |job: &Job<Order>| {
                    tally.count(job.id());
                    Ok(())
                })
                .start()
                .unwrap()
        })
        .collect();
    let ids = queue.enqueue_many(&Order::up_to(5000)).unwrap();
    drained(&queue);
    let done: u64 = workers
        .into_iter()
        .map(|worker| stop(worker).stats.done)
        .sum();
    assert_eq!(done, 5000);
    assert_eq!(tally.jobs(), ids.len());
    assert_eq!(tally.repeated(), []);
}

#[test]
fn verdicts_of_fast_jobs_do_not_wait_for_the_slow_job_after_them() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let gate = Gate::new();
    let worker = worker(&queue)
        .slots(1)
        .handle(|_: &Job<Order>| Ok(()))
        .handle(gate.handler())
        .start()
        .unwrap();
    queue.enqueue_many(&Order::up_to(70)).unwrap();
    queue.enqueue(&Hold {}).unwrap();
    gate.wait_for(1);
    counted(&worker, "the fast jobs to be settled", |counts| {
        counts.done == 70
    });
    gate.open();
    drained(&queue);
    assert_eq!(stop(worker).stats.done, 71);
}

#[test]
fn workers_that_wait_count_as_rivals_for_a_backlog() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let mut meet = |id: i32| -> i64 {
        let me = uuid(id);
        client
            .query_one(statement("other_workers"), &[&me])
            .unwrap()
            .get("others")
    };
    let mut registry = test.client();
    let mut register = |id: i32, queue: &str, kinds: Option<&[&str]>, more: &str| {
        let insert = format!(
            "INSERT INTO redrive.workers (worker_id, queue, host, pid, version, slots, kinds, waiting, expires_at) \
             VALUES ($1, $2::text, 'h', 1, 'v', 1, $3, {more})"
        );
        registry
            .execute(&insert, &[&uuid(id), &queue, &kinds])
            .unwrap();
    };
    register(
        1,
        "orders",
        Some(&["order"]),
        "false, now() + interval '1 hour'",
    );
    assert_eq!(meet(1), 0);
    register(
        2,
        "orders",
        Some(&["order"]),
        "true, now() + interval '1 hour'",
    );
    register(
        3,
        "orders",
        Some(&["other"]),
        "false, now() + interval '1 hour'",
    );
    register(4, "orders", None, "false, now() + interval '1 hour'");
    register(
        5,
        "others",
        Some(&["order"]),
        "false, now() + interval '1 hour'",
    );
    register(
        6,
        "orders",
        Some(&["order"]),
        "false, now() - interval '1 minute'",
    );
    assert_eq!(meet(1), 1, "the second one, which still waits");
    assert_eq!(meet(4), 0);
}

fn uuid(id: i32) -> uuid::Uuid {
    uuid::Uuid::from_u128(id.unsigned_abs().into())
}

#[test]
fn a_payload_that_panics_on_drop_does_not_end_a_slot() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Bomb {}
    impl Payload for Bomb {
        const KIND: &'static str = "bomb";
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            // Only in the handler, not in the test that enqueues it.
            let thread = std::thread::current();
            let in_slot = thread
                .name()
                .is_some_and(|name| name.starts_with("redrive-slot"));
            assert!(!in_slot, "boom");
        }
    }
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let worker = worker(&queue)
        .handle(|_: &Job<Bomb>| Ok(()))
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    let bomb: JobId = queue
        .enqueue_job(NewJob::raw("bomb", "{}").unwrap().max_attempts(1))
        .unwrap()
        .id();
    queue.enqueue(&Order { number: 1 }).unwrap();
    drained(&queue);
    stop(worker);
    let letter = queue.database().dlq().get(bomb).unwrap().expect("a letter");
    assert_eq!(letter.error_class, "panic");
}

#[test]
fn fast_jobs_behind_a_slow_one_of_their_chunk_run_on_another_slot() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let gate = Gate::new();
    let worker = worker(&queue)
        .slots(2)
        .hold_for(Duration::from_hours(1))
        .handle(gate.handler())
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    // Fast jobs first, so that the slots take chunks.
    queue.enqueue_many(&Order::up_to(500)).unwrap();
    counted(&worker, "the warm-up to be done", |counts| {
        counts.done == 500
    });
    let mut jobs = vec![NewJob::new(&Hold {}).unwrap().priority(1)];
    jobs.resize(401, NewJob::new(&Order { number: 1 }).unwrap());
    queue.enqueue_jobs(&jobs).unwrap();
    gate.wait_for(1);
    counted(&worker, "every other job to be done", |counts| {
        counts.done == 900
    });
    gate.open();
    drained(&queue);
    stop(worker);
}
