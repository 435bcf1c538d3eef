//! When a key is kept and when it is released.

use redrive_tests::prelude::*;

use super::{held, inserted};

#[test]
fn a_key_is_released_when_its_job_completes_dies_or_is_cancelled() {
    let (test, queue) = TestDatabase::with_orders();
    let worker = worker(&queue).runs(|job: &Job<Order>| match job.payload().number {
        1 => Ok(()),
        2 => Err(Failure::reject("broken")),
        _ => Err(Failure::retry("later").after(HOUR)),
    });
    let add = |number| queue.enqueue_job(new_order(number).unique("a")).unwrap();
    inserted(add(1));
    done(&worker, 1);
    inserted(add(2));
    died(&worker, 1);
    let waiting = inserted(add(3));
    retried(&worker, 1);
    assert_eq!(add(4), Enqueued::Existing(waiting), "a retry keeps the key");
    let cancelled = queue.cancels(waiting);
    assert_eq!(cancelled, Cancelled::Dead);
    let last = inserted(add(1));
    done(&worker, 2);
    assert_eq!(held(&test), [], "job {last} is done");
    stop(worker);
    let keys = test.count("letters WHERE unique_key = 'a'");
    assert_eq!(keys, 2, "a letter remembers its key");
}

#[test]
fn a_redrive_acquires_the_key_or_leaves_the_letter_open() {
    let (test, queue) = TestDatabase::with_orders();
    let rejecting = worker(&queue).runs(|_: &Job<Order>| Err(Failure::reject("broken")));
    let mut dead = Vec::new();
    for number in 1..=3 {
        let job = new_order(number).unique("a");
        dead.push(inserted(queue.enqueue_job(job).unwrap()));
        drained(&queue);
    }
    dead.extend([new_order(4).unique("b"), new_order(5)].map(|job| put(&queue, job)));
    finish(&queue, rejecting);
    assert_eq!(held(&test), []);

    let alive = inserted(queue.enqueue_job(new_order(6).unique("b")).unwrap());
    // Of three letters with one key the oldest goes back; the one whose key is in use stays.
    let mut redriven = queue.redrives(&LetterFilter::new().ids(dead.clone()));
    assert_eq!(redriven.redriven, [dead[0], dead[4]]);
    redriven.skipped.sort_by_key(|(id, _)| *id);
    let skipped = [1, 2, 3].map(|at| (dead[at], Skip::Conflict));
    assert_eq!(redriven.skipped, skipped);
    assert_eq!(in_state(&queue, LetterState::Open), 3);
    let expected = [("a".to_owned(), dead[0]), ("b".to_owned(), alive)];
    assert_eq!(held(&test), expected);
    assert_eq!(put(&queue, new_order(7).unique("a")), dead[0]);

    let healed = willing(&queue);
    for left in [3, 1, 0] {
        drained(&queue);
        assert_eq!(in_state(&queue, LetterState::Open), left);
        queue.redrives(&LetterFilter::new().queue("orders"));
    }
    finish(&queue, healed);
    assert_eq!(in_state(&queue, LetterState::Recovered), 5);
    assert_eq!(held(&test), []);
}

#[test]
fn a_crash_keeps_the_key_until_the_job_dies() {
    let (test, queue) = TestDatabase::with_orders();
    let gate = Gate::new();
    let id = put(&queue, NewJob::new(&Hold {}).unwrap().unique("a"));
    for crash in 1..=3 {
        // With a pool of its own, as in another process: workers of one know each other's suspects.
        let worker = worker(&test.queue("orders")).runs(gate.handler());
        gate.wait_for(crash);
        let lost = expire_leases(&mut test.client());
        // Without a stop: the worker lost its jobs and cannot release them.
        drop(worker);
        if crash < 3 {
            assert_eq!(lost, [Lost::Back(id)]);
            assert_eq!(put(&queue, new_order(1).unique("a")), id, "crash {crash}");
        } else {
            assert_eq!(lost, [Lost::Dead(id)]);
            assert_eq!(held(&test), []);
        }
    }
    gate.open();
}
