//! Letters that die after each redrive, whatever of.

use redrive::dlq::{
    CaptureOutcome, ForeignFailure, LetterFilter, LetterState, RedriveOptions, Skip,
};
use redrive::{Failure, Job, JobId, NewJob, Operator, Queue};
use redrive_tests::{Begin, Order, Sql, TestDatabase, drained, letters, stop, worker};

/// Runs the job of the letter, which dies of `error`, and returns the state of the letter.
fn die(queue: &Queue, id: JobId, error: &'static str) -> LetterState {
    let busy = worker(queue)
        .handle(move |_: &Job<Order>| -> Result<(), Failure> { Err(Failure::reject(error)) })
        .started();
    drained(queue);
    stop(busy);
    queue
        .database()
        .dlq()
        .get(id)
        .unwrap()
        .expect("a letter")
        .state
}

#[test]
fn alternating_errors_are_quarantined_at_the_tenth_failed_redrive() {
    let (_test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let id = queue
        .enqueue_job(NewJob::new(&Order { number: 1 }).unwrap())
        .unwrap()
        .id();
    die(&queue, id, "the gateway is closed");
    let only = LetterFilter::new().ids([id]);
    let redrive = || db.dlq().redrive(&only, &Operator::default()).unwrap();
    for (failed, error) in (1..=10).zip(["no route", "no answer"].into_iter().cycle()) {
        assert_eq!(redrive().redriven, [id]);
        let state = match failed {
            10 => LetterState::Quarantined,
            _ => LetterState::Open,
        };
        assert_eq!(die(&queue, id, error), state, "{failed}");
        let letter = db.dlq().get(id).unwrap().expect("a letter");
        assert_eq!((letter.alike, letter.failed_redrives), (0, failed));
    }
    assert_eq!(redrive().skipped, [(id, Skip::Quarantined)]);
    // Force gives it one more attempt.
    let operator = Operator::default().reason("the route is back");
    let forced = db
        .dlq()
        .redrive_with(&only, &RedriveOptions::new().force(), &operator);
    assert_eq!(forced.unwrap().redriven, [id]);
    assert_eq!(die(&queue, id, "no route"), LetterState::Quarantined);
}

#[test]
fn redrives_by_a_policy_do_not_count() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let id = letters(&queue, 1)[0];
    let mut client = test.client();
    client.sql("UPDATE redrive.dead_letters SET failed_redrives = 9");
    db.dlq()
        .redrive(&LetterFilter::new().ids([id]), &Operator::default())
        .unwrap();
    client.sql("UPDATE redrive.dead_letters SET policy_id = 1");
    assert_eq!(die(&queue, id, "no route"), LetterState::Open);
    let letter = db.dlq().get(id).unwrap().expect("a letter");
    assert_eq!(letter.failed_redrives, 9);
}

#[test]
fn a_recovery_ends_the_count_of_a_captured_failure() {
    let (test, db) = TestDatabase::opened();
    let foreign = ForeignFailure::new("hooks", "1", "orders", "order", "{}");
    let CaptureOutcome::New(id) = db.dlq().capture(&foreign).unwrap() else {
        panic!("a new letter");
    };
    let mut client = test.client();
    for (close, left) in [
        ("state = 'discarded', discard_reason = 'x'", 9),
        ("state = 'recovered'", 0),
    ] {
        client.sql(&format!(
            "UPDATE redrive.dead_letters SET {close}, failed_redrives = 9"
        ));
        assert_eq!(
            db.dlq().capture(&foreign).unwrap(),
            CaptureOutcome::Reopened(id)
        );
        let letter = db.dlq().get(id).unwrap().expect("a letter");
        assert_eq!(letter.failed_redrives, left, "{close}");
    }
}
