//! Live jobs one at a time: show, cancel, set the priority.

use std::time::Duration;

use redrive::{Act, Cancelled, Failure, Job, JobId, LetterState, Letters, NewJob, Place, Reason};
use redrive_tests::{
    Gate, Hold, Lost, Order, SOON, Tally, TestDatabase, counted, drained, lose_leases, stop,
    wait_until, worker,
};

const HOUR: Duration = Duration::from_hours(1);

#[test]
fn a_waiting_job_that_is_cancelled_is_a_letter_at_once() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let ready = queue.enqueue(&Order { number: 1 }).unwrap();
    let delayed = queue
        .add(
            NewJob::new(&Order { number: 2 })
                .unwrap()
                .delay(HOUR)
                .priority(3),
        )
        .unwrap();
    for id in [ready, delayed] {
        assert_eq!(db.cancel(id).unwrap(), Cancelled::Dead);
        assert_eq!(db.cancel(id).unwrap(), Cancelled::NotLive);
        assert!(db.job(id).unwrap().is_none());
        let letter = db.letter(id).unwrap().expect("a letter");
        assert_eq!(
            (letter.reason, letter.state),
            (Reason::Manual, LetterState::Open)
        );
        assert_eq!((letter.attempts, letter.history.len()), (0, 0));
    }
    assert!(queue.is_drained().unwrap());
    // A cancelled job is not lost: it can be sent back.
    assert_eq!(
        db.redrive(&Letters::ids([delayed]), &Act::new())
            .unwrap()
            .redriven,
        [delayed]
    );
    assert_eq!(db.job(delayed).unwrap().expect("live again").priority, 3);
}

#[test]
fn what_is_not_live_cannot_be_cancelled() {
    let test = TestDatabase::migrated();
    let db = test.open();
    assert_eq!(db.cancel(JobId::new(12345)).unwrap(), Cancelled::NotLive);
    assert_eq!(db.cancel(JobId::new(-1)).unwrap(), Cancelled::NotLive);
    assert!(db.job(JobId::new(12345)).unwrap().is_none());
    assert!(db.letter(JobId::new(12345)).unwrap().is_none());
}

/// Cancels a job that runs; its handler answers once it was told.
fn cancel_a_running_job(answer: fn() -> Result<(), Failure>) -> (TestDatabase, JobId) {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let begun = Gate::new();
    begun.open();
    let worker = worker(&queue)
        .handle({
            let begun = begun.clone();
            move |job: &Job<Hold>| {
                begun.pass();
                while !job.is_cancelled() {
                    std::thread::yield_now();
                }
                answer()
            }
        })
        .start()
        .unwrap();
    let id = queue.enqueue(&Hold {}).unwrap();
    begun.wait_for(1);
    assert_eq!(queue.database().cancel(id).unwrap(), Cancelled::Asked);
    drained(&queue);
    stop(worker);
    assert_eq!(begun.arrived(), 1, "it did not run again");
    (test, id)
}

#[test]
fn a_running_job_that_is_cancelled_is_told_and_dies_when_it_fails() {
    let failures: [fn() -> Result<(), Failure>; 3] = [
        || Err(Failure::retry("told to end")),
        || Err(Failure::snooze(Duration::ZERO)),
        || Err(Failure::reject("told to end")),
    ];
    for answer in failures {
        let (test, id) = cancel_a_running_job(answer);
        let letter = test.open().letter(id).unwrap().expect("a letter");
        assert_eq!(
            (letter.reason, letter.state),
            (Reason::Manual, LetterState::Open)
        );
    }
}

#[test]
fn a_running_job_that_is_cancelled_and_succeeds_is_done() {
    let (test, id) = cancel_a_running_job(|| Ok(()));
    assert!(test.open().letter(id).unwrap().is_none());
}

#[test]
fn a_cancelled_job_whose_worker_is_lost_does_not_run_again() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let gate = Gate::new();
    let worker = worker(&queue)
        .handle({
            let gate = gate.clone();
            move |_: &Job<Hold>| {
                gate.pass();
                Ok(())
            }
        })
        .start()
        .unwrap();
    let id = queue.enqueue(&Hold {}).unwrap();
    gate.wait_for(1);
    assert_eq!(queue.database().cancel(id).unwrap(), Cancelled::Asked);
    assert_eq!(lose_leases(&mut test.client()), [Lost::Dead(id)]);
    let letter = queue.database().letter(id).unwrap().expect("a letter");
    assert_eq!(letter.reason, Reason::Manual);
    gate.open();
    counted(&worker, "the stale result to be refused", |counts| {
        counts.lost == 1
    });
    stop(worker);
    assert!(queue.is_drained().unwrap());
}

#[test]
fn a_cancelled_job_that_is_released_by_a_stop_does_not_come_back() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let gate = Gate::new();
    let worker = worker(&queue)
        .handle({
            let gate = gate.clone();
            move |_: &Job<Hold>| {
                gate.pass();
                Ok(())
            }
        })
        .start()
        .unwrap();
    let id = queue.enqueue(&Hold {}).unwrap();
    gate.wait_for(1);
    assert_eq!(queue.database().cancel(id).unwrap(), Cancelled::Asked);
    worker.stop(Duration::ZERO).unwrap();
    let letter = queue.database().letter(id).unwrap().expect("a letter");
    assert_eq!(
        (letter.reason, letter.state),
        (Reason::Manual, LetterState::Open)
    );
    assert!(queue.is_drained().unwrap());
    gate.open();
}

#[test]
fn one_cancelled_job_of_a_lease_leaves_its_mates_alone() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let gate = Gate::new();
    let ids = queue.enqueue_many(&Order::up_to(3)).unwrap();
    let worker = worker(&queue)
        .slots(3)
        .handle({
            let gate = gate.clone();
            move |job: &Job<Order>| {
                gate.pass();
                if job.generation() == 0 && job.attempt() == 1 {
                    Err(Failure::retry("once"))
                } else {
                    Ok(())
                }
            }
        })
        .start()
        .unwrap();
    gate.wait_for(3);
    let leases: i64 = test
        .client()
        .query_one("SELECT count(*) FROM redrive.leases", &[])
        .unwrap()
        .get(0);
    assert_eq!(leases, 1);
    assert_eq!(queue.database().cancel(ids[1]).unwrap(), Cancelled::Asked);
    gate.open();
    drained(&queue);
    assert_eq!(stop(worker).counts.done, 2);
    assert_eq!(
        queue
            .database()
            .letter(ids[1])
            .unwrap()
            .expect("a letter")
            .reason,
        Reason::Manual
    );
    assert!(queue.database().letter(ids[0]).unwrap().is_none());
    assert!(queue.database().letter(ids[2]).unwrap().is_none());
}

#[test]
fn a_cancelled_job_that_was_redriven_opens_its_letter_again() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let id = queue.enqueue(&Order { number: 1 }).unwrap();
    db.cancel(id).unwrap();
    db.redrive(&Letters::ids([id]), &Act::new()).unwrap();
    assert_eq!(db.cancel(id).unwrap(), Cancelled::Dead);
    let letter = db.letter(id).unwrap().expect("the same letter");
    assert_eq!((letter.state, letter.generation), (LetterState::Open, 1));
    assert_eq!(db.letters(&Letters::all()).unwrap().len(), 1);
}

#[test]
fn a_job_that_moves_is_cancelled_all_the_same() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let worker = worker(&queue)
        .slots(2)
        .handle(|_: &Job<Order>| Err(Failure::retry("again")))
        .start()
        .unwrap();
    let jobs = Order::up_to(20)
        .iter()
        .map(|order| NewJob::new(order).unwrap().max_attempts(1000))
        .collect();
    let ids = queue.add_many(jobs).unwrap();
    counted(&worker, "them to move", |counts| counts.retried > 50);
    for id in ids {
        wait_until("the job to be caught", SOON, || match db.cancel(id) {
            Ok(Cancelled::Dead | Cancelled::Asked) => true,
            Ok(Cancelled::NotLive) => panic!("job {id} was live, wherever it was"),
            Err(error) => {
                assert!(error.is_unavailable(), "{error:?}");
                false
            }
        });
    }
    drained(&queue);
    stop(worker);
    assert_eq!(
        db.letters(&Letters::all().reason(Reason::Manual))
            .unwrap()
            .len(),
        20
    );
}

#[test]
fn a_priority_changes_the_order_of_what_waits() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let ids = queue.enqueue_many(&Order::up_to(4)).unwrap();
    let delayed = queue
        .add(NewJob::new(&Order { number: 5 }).unwrap().delay(HOUR))
        .unwrap();
    let before = db.job(ids[3]).unwrap().expect("a live job");
    assert!(db.set_priority(ids[3], 7).unwrap());
    assert!(db.set_priority(ids[0], -7).unwrap());
    assert!(db.set_priority(delayed, 1000).unwrap());
    assert!(!db.set_priority(JobId::new(99_999), 1).unwrap());
    for bad in [1001, -1001, i16::MAX, i16::MIN] {
        assert!(
            db.set_priority(ids[1], bad)
                .expect_err("out of range")
                .is_invalid()
        );
    }
    let after = db.job(ids[3]).unwrap().expect("a live job");
    assert_eq!(
        (after.priority, after.since, after.enqueued_at),
        (7, before.since, before.enqueued_at)
    );
    assert_eq!(
        (after.payload.get(), after.attempts),
        (before.payload.get(), before.attempts)
    );
    let job = db.job(delayed).unwrap().expect("a live job");
    assert_eq!((job.place, job.priority), (Place::Delayed, 1000));
    test.client()
        .execute("UPDATE redrive.jobs_delayed SET run_at = now()", &[])
        .unwrap();

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
    assert_eq!(tally.order(), [delayed, ids[3], ids[1], ids[2], ids[0]]);
}

#[test]
fn the_priority_of_a_running_job_cannot_be_set() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let gate = Gate::new();
    let worker = worker(&queue)
        .handle({
            let gate = gate.clone();
            move |_: &Job<Hold>| {
                gate.pass();
                Ok(())
            }
        })
        .start()
        .unwrap();
    let id = queue.enqueue(&Hold {}).unwrap();
    gate.wait_for(1);
    assert!(!queue.database().set_priority(id, 5).unwrap());
    gate.open();
    drained(&queue);
    stop(worker);
}
