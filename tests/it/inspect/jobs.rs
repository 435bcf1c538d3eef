//! Single live jobs: show and cancel.

use redrive_tests::prelude::*;

#[test]
fn cancelling_a_waiting_job_dead_letters_it_at_once() {
    let (_test, queue) = TestDatabase::with_orders();
    let ready = queue.enqueue(&Order { number: 1 }).unwrap();
    let delayed = put(&queue, new_order(2).delay(HOUR).priority(3));
    for id in [ready, delayed] {
        assert_eq!(queue.cancels(id), Cancelled::Dead);
        assert_eq!(queue.cancels(id), Cancelled::NotLive);
        assert!(queue.database().admin().job(id).unwrap().is_none());
        let letter = queue.letter(id);
        assert_eq!(letter.cause, DeathCause::Manual);
        assert_eq!(letter.state, LetterState::Open);
        assert_eq!((letter.attempts, letter.history.len()), (0, 0));
    }
    assert!(queue.is_drained().unwrap());
    // A cancelled job can be redriven.
    assert_eq!(queue.redrives(&only(delayed)).redriven, [delayed]);
    assert_eq!(queue.live(delayed).priority, 3);
}

/// What a handler returns.
type Answer = fn() -> Result<(), Failure>;

/// Cancels a running job, whose handler returns after it sees the cancellation.
fn cancel_a_running_job(answer: Answer) -> (TestDatabase, JobId) {
    let (test, queue) = TestDatabase::with_orders();
    let gate = Gate::new();
    let worker = worker(&queue).runs(gate.passing_to(move |job: &Job<Hold>| {
        wait_until("the cancellation", SOON, || job.is_cancelled());
        answer()
    }));
    let id = queue.enqueue(&Hold {}).unwrap();
    gate.wait_for(1);
    for _ in 0..2 {
        assert_eq!(queue.cancels(id), Cancelled::Asked);
        let noted = "leases WHERE cardinality(cancelled) = 1";
        assert_eq!(test.count(noted), 1);
    }
    gate.open();
    finish(&queue, worker);
    assert_eq!(gate.arrived(), 1, "it did not run again");
    (test, id)
}

#[test]
fn a_cancelled_running_job_sees_the_cancellation_and_dies_unless_it_succeeds() {
    let answers: [(Answer, bool); 4] = [
        (|| Err(Failure::retry("asked to end")), true),
        (|| Err(Failure::snooze(Duration::ZERO)), true),
        (|| Err(Failure::reject("asked to end")), true),
        (|| Ok(()), false),
    ];
    for (answer, dies) in answers {
        let (test, id) = cancel_a_running_job(answer);
        let letter = test.open().dlq().get(id).unwrap();
        let found = letter.map(|letter| (letter.cause, letter.state));
        let dead = (DeathCause::Manual, LetterState::Open);
        assert_eq!(found, dies.then_some(dead), "{:?}", answer());
    }
}
