//! The worker, end to end: what a handler does, and what follows.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive::{Failure, Job, JobId, NewJob, Payload, Place};
use redrive_tests::{
    Finish, Gate, Hold, Order, SOON, Tally, TestDatabase, counted, drained, stats, stop,
    wait_until, worker,
};
use serde_json::value::RawValue;

#[test]
fn a_job_that_succeeds_is_gone() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let tally = Tally::new();
    let worker = worker(&queue)
        .handle({
            let tally = tally.clone();
            move |job: &Job<Order>| {
                tally.count(job.id());
                Ok(())
            }
        })
        .start()
        .unwrap();
    let ids = queue.enqueue_many(&Order::up_to(100)).unwrap();
    drained(&queue);
    counted(&worker, "100 done", |counts| counts.done == 100);
    let stopped = stop(worker);
    assert_eq!(
        (
            stopped.counts.done,
            stopped.counts.dead,
            stopped.counts.lost
        ),
        (100, 0, 0)
    );
    assert_eq!(stopped.counts.retried, 0);
    assert!(ids.iter().all(|id| tally.of(*id) == 1));
    assert!(
        stats(queue.database(), "orders").is_none(),
        "nothing is left of it"
    );
}

#[test]
fn a_handler_sees_the_facts_of_its_job() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let worker = worker(&queue)
        .handle({
            let seen = Arc::clone(&seen);
            move |job: &Job<Order>| {
                seen.lock().unwrap().push((
                    (
                        job.id(),
                        job.queue().to_owned(),
                        job.kind().to_owned(),
                        job.payload().number,
                    ),
                    (job.attempt(), job.max_attempts(), job.is_last_attempt()),
                    (
                        job.generation(),
                        job.priority(),
                        job.is_cancelled(),
                        job.enqueued_at(),
                    ),
                ));
                Err(Failure::retry("again"))
            }
        })
        .start()
        .unwrap();
    let new = NewJob::new(&Order { number: 9 })
        .unwrap()
        .priority(3)
        .max_attempts(2);
    let id = queue.add(new).unwrap();
    drained(&queue);
    stop(worker);
    let letter = queue.database().letter(id).unwrap().expect("a letter");
    let seen = seen.lock().unwrap();
    let who = (id, "orders".to_owned(), "order".to_owned(), 9);
    let rest = (0, 3, false, letter.enqueued_at);
    assert_eq!(
        *seen,
        [
            (who.clone(), (1, 2, false), rest),
            (who, (2, 2, true), rest)
        ]
    );
}

#[test]
fn several_kinds_go_to_their_own_handlers() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let (orders, finishes) = (Tally::new(), Tally::new());
    let worker = worker(&queue)
        .slots(3)
        .handle({
            let orders = orders.clone();
            move |job: &Job<Order>| {
                orders.count(job.id());
                Ok(())
            }
        })
        .handle({
            let finishes = finishes.clone();
            move |job: &Job<Finish>| {
                finishes.count(job.id());
                Ok(())
            }
        })
        .start()
        .unwrap();
    let mut expected = (Vec::new(), Vec::new());
    for number in 0..20 {
        expected.0.push(queue.enqueue(&Order { number }).unwrap());
        expected.1.push(queue.enqueue(&Finish {}).unwrap());
    }
    drained(&queue);
    stop(worker);
    assert!(
        expected
            .0
            .iter()
            .all(|id| orders.of(*id) == 1 && finishes.of(*id) == 0)
    );
    assert!(
        expected
            .1
            .iter()
            .all(|id| finishes.of(*id) == 1 && orders.of(*id) == 0)
    );
}

#[test]
fn a_handler_for_any_kind_gets_what_no_other_takes_as_it_is_stored() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let any = Arc::new(Mutex::new(Vec::new()));
    let typed = Tally::new();
    let worker = worker(&queue)
        .handle({
            let typed = typed.clone();
            move |job: &Job<Order>| {
                typed.count(job.id());
                Ok(())
            }
        })
        .handle_any({
            let any = Arc::clone(&any);
            move |job: &Job<Box<RawValue>>| {
                any.lock()
                    .unwrap()
                    .push((job.kind().to_owned(), job.payload().get().to_owned()));
                Ok(())
            }
        })
        .start()
        .unwrap();
    let order = queue.enqueue(&Order { number: 1 }).unwrap();
    // A number that no f64 holds, and that a value of serde_json would change.
    queue
        .add(NewJob::raw("odd", "123456789012345678901234567890.10").unwrap())
        .unwrap();
    drained(&queue);
    stop(worker);
    assert_eq!(typed.of(order), 1);
    let expected = (
        "odd".to_owned(),
        "123456789012345678901234567890.10".to_owned(),
    );
    assert_eq!(*any.lock().unwrap(), [expected]);
}

#[test]
fn a_kind_without_a_handler_stays_ready_for_a_worker_that_has_one() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let stranger = queue
        .add(NewJob::raw("stranger", "{}").unwrap().priority(9))
        .unwrap();
    let known = queue.enqueue(&Order { number: 1 }).unwrap();
    let tally = Tally::new();
    let one = worker(&queue)
        .handle({
            let tally = tally.clone();
            move |job: &Job<Order>| {
                tally.count(job.id());
                Ok(())
            }
        })
        .start()
        .unwrap();
    wait_until("the job behind it to be done", SOON, || {
        tally.of(known) == 1
    });
    stop(one);
    let job = queue.database().job(stranger).unwrap().expect("still live");
    assert_eq!((job.place, job.attempts), (Place::Ready, 0));

    let other = worker(&queue).handle_any(|_| Ok(())).start().unwrap();
    drained(&queue);
    assert_eq!(stop(other).counts.done, 1);
}

#[test]
fn higher_priorities_run_first_then_older_ids() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let priorities = [0, -1, 5, 0, 1000, 5, -1000, 0, 5];
    let jobs = priorities.map(|priority| {
        NewJob::new(&Order { number: 0 })
            .unwrap()
            .priority(priority)
    });
    let ids = queue.add_many(jobs.to_vec()).unwrap();
    let tally = Tally::new();
    let worker = worker(&queue)
        .handle({
            let tally = tally.clone();
            move |job: &Job<Order>| {
                tally.count(job.id());
                Ok(())
            }
        })
        .start()
        .unwrap();
    drained(&queue);
    stop(worker);
    assert_eq!(
        tally.order(),
        [4, 2, 5, 8, 0, 3, 7, 1, 6].map(|place: usize| ids[place])
    );
}

#[test]
fn a_delayed_job_runs_when_it_is_due_and_not_before() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let later = NewJob::new(&Order { number: 1 })
        .unwrap()
        .delay(Duration::from_hours(1))
        .priority(9);
    let later = queue.add(later).unwrap();
    let tally = Tally::new();
    let worker = worker(&queue)
        .handle({
            let tally = tally.clone();
            move |job: &Job<Order>| {
                tally.count(job.id());
                Ok(())
            }
        })
        .start()
        .unwrap();
    let now = queue.enqueue(&Order { number: 2 }).unwrap();
    wait_until("the ready job to be done", SOON, || tally.of(now) == 1);
    let job = queue.database().job(later).unwrap().expect("still live");
    assert_eq!((job.place, tally.of(later)), (Place::Delayed, 0));
    test.client()
        .execute(
            "UPDATE redrive.jobs_delayed SET run_at = clock_timestamp() - interval '1 ms'",
            &[],
        )
        .unwrap();
    drained(&queue);
    stop(worker);
    assert_eq!(tally.of(later), 1);
}

#[test]
fn many_slots_run_jobs_at_the_same_time() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let gate = Gate::new();
    let worker = worker(&queue)
        .slots(16)
        .handle({
            let gate = gate.clone();
            move |_: &Job<Hold>| {
                gate.pass();
                Ok(())
            }
        })
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
        .map(|worker| stop(worker).counts.done)
        .sum();
    assert_eq!(done, 5000);
    assert_eq!(tally.jobs(), ids.len());
    assert_eq!(tally.repeated(), []);
}

#[test]
fn a_handler_that_panics_in_the_drop_of_its_payload_ends_nothing() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Bomb {}
    impl Payload for Bomb {
        const KIND: &'static str = "bomb";
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            // Only in the handler: the one who enqueues may drop it in peace.
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
        .add(NewJob::raw("bomb", "{}").unwrap().max_attempts(1))
        .unwrap();
    queue.enqueue(&Order { number: 1 }).unwrap();
    drained(&queue);
    stop(worker);
    let letter = queue.database().letter(bomb).unwrap().expect("a letter");
    assert_eq!(letter.error_class, "panic");
}
