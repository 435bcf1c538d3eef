//! Single live jobs: show and cancel.

use redrive_tests::prelude::*;

/// Cancels a job, which must lead to this.
#[track_caller]
fn cancels(queue: &Queue, id: JobId, outcome: Cancelled) {
    assert_eq!(queue.cancels(id), outcome);
}

#[test]
fn cancelling_a_waiting_job_dead_letters_it_at_once() {
    let (_test, queue) = TestDatabase::with_orders();
    let ready = queue.enqueue(&Order { number: 1 }).unwrap();
    let delayed = put(&queue, new_order(2).delay(HOUR).priority(3));
    for id in [ready, delayed] {
        cancels(&queue, id, Cancelled::Dead);
        cancels(&queue, id, Cancelled::NotLive);
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
    cancels(&queue, id, Cancelled::Asked);
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

#[test]
fn a_cancelled_job_whose_worker_is_lost_or_stops_does_not_run_again() {
    for stops in [true, false] {
        let (test, queue) = TestDatabase::with_orders();
        let (gate, worker, id) = running(&queue);
        cancels(&queue, id, Cancelled::Asked);
        cancels(&queue, id, Cancelled::Asked);
        let noted = "SELECT cardinality(cancelled)::bigint FROM redrive.leases";
        assert_eq!(scalar(&mut test.client(), noted), 1);
        if !stops {
            assert_eq!(expire_leases(&mut test.client()), [Lost::Dead(id)]);
        }
        worker.stop(Duration::ZERO).unwrap();
        let letter = queue.letter(id);
        assert_eq!(letter.cause, DeathCause::Manual);
        assert_eq!(letter.state, LetterState::Open);
        assert!(queue.is_drained().unwrap());
        gate.open();
    }
}

#[test]
fn cancelling_one_job_does_not_affect_the_others_of_its_lease() {
    let (test, queue) = TestDatabase::with_orders();
    let gate = Gate::new();
    let ids = queue.enqueue_many(&Order::up_to(3)).unwrap();
    let handler = gate.passing_to(|job: &Job<Order>| match job.attempt() {
        1 => Err(Failure::retry("once")),
        _ => Ok(()),
    });
    let worker = worker(&queue).slots(3).runs(handler);
    gate.wait_for(3);
    assert_eq!(test.client().count("leases"), 1);
    cancels(&queue, ids[1], Cancelled::Asked);
    gate.open();
    assert_eq!(finish(&queue, worker).stats.done, 2);
    assert_eq!(queue.letter(ids[1]).cause, DeathCause::Manual);
    assert!(queue.database().dlq().get(ids[0]).unwrap().is_none());
    assert!(queue.database().dlq().get(ids[2]).unwrap().is_none());
}

#[test]
fn a_job_that_changes_state_can_still_be_cancelled() {
    let (_test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let worker = worker(&queue)
        .slots(2)
        .runs(|_: &Job<Order>| Err(Failure::retry("again")));
    let jobs = vec![new_order(1).max_attempts(1000); 20];
    let ids = ids(&queue.enqueue_jobs(&jobs).unwrap());
    counted(&worker, "them to move", |counts| counts.retried > 50);
    for id in ids {
        wait_until("the job to be caught", SOON, || {
            match db.admin().jobs().cancel(id, &maria()) {
                Ok(Cancelled::Dead | Cancelled::Asked) => true,
                Ok(other) => panic!("job {id} was live, wherever it was: {other:?}"),
                Err(error) => {
                    assert!(error.is_unavailable(), "{error:?}");
                    false
                }
            }
        });
    }
    finish(&queue, worker);
    let cancelled = db.listed(&LetterFilter::new().cause(DeathCause::Manual));
    assert_eq!(cancelled.len(), 20);
}
