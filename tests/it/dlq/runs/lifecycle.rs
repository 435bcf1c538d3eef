//! The states and drivers of a run.

use std::num::NonZeroU32;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redrive::dlq::runs::{DriveStatus, Rate, RunId, RunOptions, RunState};
use redrive::dlq::{LetterFilter, LetterState, Skip};
use redrive::{Failure, Job, Operator};
use redrive_tests::{
    Begin, Order, SOON, TestDatabase, drained, finish, letters, letters_in, stop, wait_until,
    worker,
};

use super::{adds_up, audited, drive, fixable, live, run, start, unthrottled};

/// One letter per second: one step sends a letter, the next none.
fn slowly() -> RunOptions {
    RunOptions::new().rate(Rate::PerSecond(NonZeroU32::MIN))
}

#[test]
fn the_membership_of_a_run_is_frozen() {
    let (test, queue) = TestDatabase::with_orders();
    let ids = letters(&queue, 6);
    let mut driver = start(&test, &unthrottled());
    // One more dies, one is discarded, and one is deleted.
    let late = queue.enqueue(&Order { number: 7 }).unwrap();
    let (worker, _) = fixable(&test);
    finish(&queue, worker);
    let db = queue.database();
    let why = Operator::default().reason("a duplicate");
    db.dlq()
        .discard(&LetterFilter::new().ids([ids[1], ids[2]]), &why)
        .unwrap();
    db.dlq()
        .prune(Duration::ZERO, &Operator::default())
        .unwrap();
    db.dlq()
        .discard(&LetterFilter::new().ids([ids[3]]), &why)
        .unwrap();

    assert_eq!(drive(&mut driver).0, DriveStatus::Ended(RunState::Finished));
    let run = run(&test, driver.run());
    assert_eq!((run.total, run.tried, run.sent, run.skipped), (6, 6, 3, 3));
    assert_eq!(
        db.dlq().runs().skips(run.id).unwrap(),
        [(Skip::Gone, 2), (Skip::NotOpen, 1)]
    );
    let went: Vec<i64> = [0, 4, 5].map(|place: usize| ids[place].get()).into();
    assert_eq!(live(&test).into_keys().collect::<Vec<_>>(), went);
    let letter = db.dlq().get(late).unwrap().expect("a letter");
    assert_eq!(letter.state, LetterState::Open);
    assert_eq!(audited(&test), 3);
    adds_up(&test, run.id);
    assert!(
        db.dlq()
            .runs()
            .start(&LetterFilter::new().queue("x"), &slowly(), &why)
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_run_can_be_paused_resumed_and_cancelled_midway() {
    let (test, queue) = TestDatabase::with_orders();
    letters(&queue, 20);
    let db = queue.database();
    let mut driver = start(&test, &slowly());
    let id = driver.run();
    assert_eq!(driver.step().unwrap().sent, 1);
    assert_eq!(
        driver.step().unwrap().sent,
        1,
        "by the rate, the next is not due"
    );
    let change = db
        .dlq()
        .runs()
        .pause(id, &Operator::default())
        .unwrap()
        .expect("the run");
    assert_eq!(
        (change.was, change.became),
        (RunState::Running, RunState::Paused)
    );
    assert_eq!(
        driver.step().unwrap().status,
        DriveStatus::Ended(RunState::Paused)
    );
    assert!(db.dlq().runs().drive(id).unwrap().is_none(), "it is paused");
    let again = db
        .dlq()
        .runs()
        .pause(id, &Operator::default())
        .unwrap()
        .expect("the run");
    assert_eq!(again.was, again.became);

    db.dlq().runs().resume(id, &Operator::default()).unwrap();
    assert_eq!(
        driver.step().unwrap().status,
        DriveStatus::Lost,
        "its term is over"
    );
    let mut driver = db
        .dlq()
        .runs()
        .drive(id)
        .unwrap()
        .expect("it has no driver");
    assert_eq!(driver.step().unwrap().sent, 2);
    db.dlq()
        .runs()
        .cancel(id, &Operator::default().reason("wrong filter"))
        .unwrap();
    assert_eq!(
        driver.step().unwrap().status,
        DriveStatus::Ended(RunState::Cancelled)
    );
    let change = db
        .dlq()
        .runs()
        .resume(id, &Operator::default())
        .unwrap()
        .expect("the run");
    assert_eq!(change.became, RunState::Cancelled, "that was the end");

    assert_eq!(live(&test).len(), 2);
    assert_eq!(letters_in(db, "orders", LetterState::Open), 18);
    assert_eq!(audited(&test), 2);
    let verbs =
        "SELECT string_agg(verb, ', ' ORDER BY id) FROM redrive.audit WHERE verb LIKE '%_run'";
    let row = test.client().query_one(verbs, &[]).unwrap();
    assert_eq!(
        row.get::<_, &str>(0),
        "create_run, pause_run, resume_run, cancel_run"
    );
    adds_up(&test, id);
    assert!(
        db.dlq()
            .runs()
            .pause(RunId::new(99), &Operator::default())
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_driver_whose_lease_expired_sends_no_letter() {
    let (test, queue) = TestDatabase::with_orders();
    letters(&queue, 10);
    let db = queue.database();
    let mut first = start(&test, &slowly());
    first.step().unwrap();
    assert!(
        db.dlq().runs().drive(first.run()).unwrap().is_none(),
        "it is driven"
    );
    test.client()
        .execute(
            "UPDATE redrive.redrive_runs SET driver_expires_at = clock_timestamp() - interval '1 second', \
             next_at = clock_timestamp() - interval '1 minute'",
            &[],
        )
        .unwrap();
    let mut second = db
        .dlq()
        .runs()
        .drive(first.run())
        .unwrap()
        .expect("it has no driver");
    assert_eq!(first.step().unwrap().status, DriveStatus::Lost);
    assert_eq!(live(&test).len(), 1, "the late step moved nothing");
    assert_eq!(
        second.step().unwrap().sent,
        3,
        "a second of it is made up for"
    );
    assert_eq!(live(&test).len(), 3);
}

#[test]
fn workers_drive_a_run_without_a_driver() {
    let (test, queue) = TestDatabase::with_orders();
    letters(&queue, 1200);
    let db = queue.database();
    let created = db
        .dlq()
        .runs()
        .create(
            &LetterFilter::new(),
            &unthrottled().canary(10),
            &Operator::default(),
        )
        .unwrap()
        .expect("letters");
    assert_eq!((created.letters, created.unserved.len()), (1200, 1));
    let (first, fixed) = fixable(&test);
    fixed.store(true, Ordering::SeqCst);
    // Any worker drives it, also one of another queue.
    let second = worker(&test.queue("other"))
        .handle_any(|_| Ok(()))
        .started();
    wait_until("the run to finish", SOON, || {
        run(&test, created.id).state == RunState::Finished
    });
    drained(&queue);
    wait_until("the outcomes", SOON, || {
        run(&test, created.id).recovered == 1200
    });
    assert_eq!(stop(first).stats.done, 1200);
    stop(second);
    adds_up(&test, created.id);
    assert_eq!(audited(&test), 1200);
}

#[test]
fn outcomes_separate_the_same_failure_from_a_different_one() {
    let (test, queue) = TestDatabase::with_orders();
    let ids = letters(&queue, 3);
    let edit = "UPDATE redrive.dead_letters SET payload = '{\"number\": \"x\"}' WHERE id = $1";
    test.client().execute(edit, &[&ids[0].get()]).unwrap();
    let mut driver = start(&test, &unthrottled());
    drive(&mut driver);
    let number = 2;
    let worker = worker(&queue)
        .handle(
            move |job: &Job<Order>| match job.payload().number == number {
                true => Ok(()),
                false => Err(Failure::reject("broken")),
            },
        )
        .started();
    drained(&queue);
    wait_until("the outcomes", SOON, || {
        run(&test, driver.run()).still_running == 0
    });
    stop(worker);
    let state = run(&test, driver.run());
    assert_eq!(
        (state.recovered, state.died_alike, state.died_differently),
        (1, 1, 1)
    );
    adds_up(&test, driver.run());
    // Redriven by an operator, their outcomes no longer count for the run.
    queue
        .database()
        .dlq()
        .redrive(&LetterFilter::new(), &Operator::default())
        .unwrap();
    assert_eq!(run(&test, driver.run()).died_alike, 1);
}
