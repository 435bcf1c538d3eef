//! Keys that a job holds only until a worker takes it.

use redrive_tests::prelude::*;

use super::{held, inserted};

fn until_started(number: i64) -> NewJob {
    new_order(number).unique("a").until_started()
}

#[test]
fn a_job_frees_its_key_when_it_starts_and_other_jobs_of_its_lease_keep_theirs() {
    let (test, queue) = TestDatabase::with_orders();
    // A claim reads the whole lease, so both jobs start together.
    let jobs = [until_started(1), new_order(2).unique("b"), new_order(3)];
    let first = queue.enqueue_jobs(&jobs).unwrap();
    assert_eq!(put(&queue, until_started(4)), first[0].id(), "it waits");
    let gate = Gate::new();
    let worker = worker(&queue).slots(3).runs(gate.passing::<Order>());
    gate.wait_for(3);
    assert_eq!(held(&test), [("b".to_owned(), first[1].id())]);
    let faults = queue.database().admin().faults().unwrap();
    assert_eq!(faults, [], "no job lost its key");
    let change = until_started(5).delay(HOUR);
    let second = inserted(queue.enqueue_job(change.replace(Replace::Both)).unwrap());
    // The waiting job, not the running one.
    let changed = queue.enqueue_job(until_started(6).replace(Replace::Both));
    assert_eq!(changed.unwrap(), Enqueued::Replaced(second));
    gate.open();
    done(&worker, 4);
    assert_eq!(finish(&queue, worker).stats.lost, 0);
    assert_eq!(held(&test), []);
}

#[test]
fn a_retry_leaves_the_key_free_and_a_redrive_takes_it_until_the_start() {
    let (test, queue) = TestDatabase::with_orders();
    let failing = worker(&queue).runs(|job: &Job<Order>| match job.payload().number {
        1 => Err(Failure::retry("once more").after(HOUR)),
        _ => Err(Failure::reject("broken")),
    });
    let retried = inserted(queue.enqueue_job(until_started(1)).unwrap());
    counted(&failing, "a retry", |counts| counts.retried == 1);
    assert_eq!(held(&test), [], "a retry");
    assert_eq!(queue.database().admin().faults().unwrap(), []);
    let dead = inserted(queue.enqueue_job(until_started(2)).unwrap());
    died(&failing, 1);
    stop(failing);
    assert_eq!(held(&test), []);

    assert_eq!(queue.redrives(&of_orders()).redriven, [dead]);
    let existing = put(&queue, until_started(3));
    assert_eq!(existing, dead, "the redriven job waits");
    let gate = Gate::new();
    let worker = worker(&queue).runs(gate.passing::<Order>());
    gate.wait_for(1);
    assert_eq!(held(&test), [], "the redriven job has started");
    gate.open();
    done(&worker, 1);
    stop(worker);
    assert_eq!(in_state(&queue, LetterState::Open), 0);
    queue.cancels(retried);
    assert_eq!(held(&test), []);
}

#[test]
fn retries_of_one_key_that_are_due_together_stop_no_other_job() {
    let test = TestDatabase::migrated();
    let (queue, other) = (test.queue("orders"), test.queue("bills"));
    let failing = |_: &Job<Order>| Err(Failure::retry("once more").after(HOUR));
    let failing = worker(&queue).runs(failing);
    for (number, retries) in [(1, 1), (2, 2)] {
        inserted(queue.enqueue_job(until_started(number)).unwrap());
        retried(&failing, retries);
    }
    stop(failing);
    inserted(queue.enqueue_job(until_started(3).delay(HOUR)).unwrap());
    inserted(other.enqueue_job(new_order(4).delay(HOUR)).unwrap());
    assert_eq!(test.count("jobs_delayed"), 4);
    test.all_due();
    let tally = Tally::new();
    let workers = [&queue, &other].map(|queue| worker(queue).runs(tally.counting()));
    drained(&queue);
    drained(&other);
    stop_all(workers);
    assert_eq!((tally.jobs(), tally.repeated()), (4, vec![]));
    assert_eq!(held(&test), []);
}
