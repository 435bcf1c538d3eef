//! Pauses: no job of a paused queue starts in any process, and nothing is lost or charged.

mod breaker;
mod end;
mod letters;

use postgres::fallible_iterator::FallibleIterator;
use redrive_tests::prelude::*;

fn pause(queue: &Queue, end: PauseEnd) {
    queue.pause(end, &maria()).unwrap();
}

fn resume(queue: &Queue) {
    assert!(queue.resume(&maria()).unwrap(), "it was paused");
}

fn paused(db: &Database, queue: &str) -> Option<QueuePause> {
    stats(db, queue).and_then(|stats| stats.pause)
}

#[test]
fn no_job_of_a_paused_queue_starts_in_any_worker() {
    let (test, queue) = TestDatabase::with_orders();
    let runs = Tally::new();
    let start = |queue: &Queue| worker(queue).runs(runs.counting());
    let workers = [start(&queue), start(&test.queue("orders"))];
    pause(&queue, PauseEnd::Resumed);
    informed(&test, &[&workers[0], &workers[1]]);
    queue.enqueue_many(&Order::up_to(20)).unwrap();
    informed(&test, &[&workers[0], &workers[1]]);
    // A worker that starts during the pause knows of it before its first claim.
    let third = start(&queue);
    informed(&test, &[&workers[0], &workers[1], &third]);
    wait_until("every job to be ready", SOON, || {
        let live = stats(queue.database(), "orders").expect("the queue");
        (live.ready, live.leased) == (20, 0)
    });
    assert_eq!(runs.jobs(), 0);
    // Another queue is not affected.
    let mails = test.queue("mails");
    mails.enqueue(&Order { number: 1 }).unwrap();
    work_off(&mails, |_: &Job<Order>| Ok(()));
    resume(&queue);
    drained(&queue);
    assert_eq!(stop_all(workers) + stop(third).stats.done, 20);
}

#[test]
fn running_jobs_finish_and_fetched_jobs_return_without_a_charge() {
    let (test, queue) = TestDatabase::with_orders();
    let (gate, runs) = (kept::<Gate>(), Tally::new());
    let counts = runs.counting();
    let worker = worker(&queue).runs(move |job: &Job<Order>| {
        if job.payload().number == 0 {
            gate.pass();
        }
        counts(job)
    });
    // Quick jobs first, so that it claims in batches.
    queue.enqueue_many(&Order::up_to(2000)).unwrap();
    drained(&queue);
    let slow_first: Vec<Order> = (0..2000).map(|number| Order { number }).collect();
    queue.enqueue_many(&slow_first).unwrap();
    gate.wait_for(1);
    wait_until("jobs to wait behind the running one", SOON, || {
        stats(queue.database(), "orders").is_some_and(|stats| stats.leased > 1)
    });
    let before = runs.jobs();
    pause(&queue, PauseEnd::Resumed);
    told(&test, &worker);
    gate.open();
    wait_until("nothing to be in its hands", SOON, || {
        stats(queue.database(), "orders").is_some_and(|stats| stats.leased == 0)
    });
    let live = stats(queue.database(), "orders").expect("the queue");
    assert_eq!((live.ready, live.delayed, live.open), (2000 - 1, 0, 0));
    assert_eq!(runs.jobs(), before + 1);
    assert_eq!(test.untouched(), 1999);
    done(&worker, 2001);
    resume(&queue);
    let counts = finish(&queue, worker).stats;
    assert_eq!((counts.done, counts.dead), (4000, 0));
    assert!(counts.released > 0, "{counts:?}");
}

#[test]
fn a_pause_and_a_resume_notify_every_worker() {
    let (test, queue) = TestDatabase::with_orders();
    let mut listener = test.client();
    listener.sql("LISTEN redrive_breaker");
    let mut told = || {
        let mut notifications = listener.notifications();
        let first = notifications.timeout_iter(SOON).next().unwrap();
        first.expect("a notification").payload().to_owned()
    };
    pause(&queue, PauseEnd::After(HOUR));
    assert_eq!(told(), "queue:orders");
    resume(&queue);
    assert_eq!(told(), "queue:orders");
    assert!(!queue.resume(&maria()).unwrap());
    // A resume that changed nothing is silent.
    pause(&test.queue("mails"), PauseEnd::Resumed);
    assert_eq!(told(), "queue:mails");
}

#[test]
fn recovered_and_due_jobs_of_a_paused_queue_wait_for_the_resume() {
    let (test, queue) = TestDatabase::with_orders();
    let failing =
        worker(&queue).runs(|_: &Job<Order>| Err(Failure::retry("once more").after(HOUR)));
    queue.enqueue(&Order { number: 1 }).unwrap();
    retried(&failing, 1);
    stop(failing);
    let gate = Gate::new();
    let holding = worker(&queue).runs(gate.passing::<Order>());
    queue.enqueue(&Order { number: 2 }).unwrap();
    gate.wait_for(1);
    pause(&queue, PauseEnd::Resumed);
    informed(&test, &[&holding]);
    assert_eq!(expire_leases(&mut test.client()).len(), 1);
    test.all_due();
    gate.open();
    let other = willing(&queue);
    informed(&test, &[&holding, &other]);
    // Nobody promotes the other one before the resume.
    wait_until("the recovered job to be ready", SOON, || {
        let live = stats(queue.database(), "orders").expect("the queue");
        (live.ready, live.delayed, live.leased) == (1, 1, 0)
    });
    assert_eq!((other.stats().done, gate.arrived()), (0, 1));
    stop(holding);
    resume(&queue);
    assert_eq!(finish(&queue, other).stats.done, 2);
}
