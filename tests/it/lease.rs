//! Leases: what a worker says about a job counts while it holds the lease, and never after.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redrive::{Act, Failure, Job, LetterState, Letters, NewJob, Place, Worker};
use redrive_tests::{
    Gate, Hold, Lost, Order, SOON, Tally, TestDatabase, counted, drained, letters_in, lose_leases,
    stop, wait_until, worker,
};

/// What a handler answers once its gate is open.
type Answer = fn(&Job<Order>) -> Result<(), Failure>;

/// A worker of its own database handle, whose handler counts, waits at a gate, and answers.
fn gated(test: &TestDatabase, tally: &Tally, gate: &Gate, answer: Answer) -> Worker {
    let (tally, gate) = (tally.clone(), gate.clone());
    worker(&test.queue("orders"))
        .handle(move |job: &Job<Order>| {
            tally.count(job.id());
            gate.pass();
            answer(job)
        })
        .start()
        .unwrap()
}

#[expect(clippy::unnecessary_wraps, reason = "it is one answer among others")]
fn done(_: &Job<Order>) -> Result<(), Failure> {
    Ok(())
}

fn reject(_: &Job<Order>) -> Result<(), Failure> {
    Err(Failure::reject("a stale opinion"))
}

fn retry(_: &Job<Order>) -> Result<(), Failure> {
    Err(Failure::retry("a stale opinion"))
}

fn snooze(_: &Job<Order>) -> Result<(), Failure> {
    Err(Failure::snooze(Duration::ZERO))
}

/// What a stale worker answers has no effect: the job is done by the one that has it now.
fn stale(answer: Answer) {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let (runs_a, runs_b) = (Tally::new(), Tally::new());
    let (gate_a, gate_b) = (Gate::new(), Gate::new());
    let a = gated(&test, &runs_a, &gate_a, answer);
    let id = queue.enqueue(&Order { number: 1 }).unwrap();
    gate_a.wait_for(1);
    assert_eq!(lose_leases(&mut test.client()), [Lost::Back(id)]);

    // While B has it …
    let b = gated(&test, &runs_b, &gate_b, done);
    gate_b.wait_for(1);
    gate_a.open();
    counted(&a, "the stale result to be refused", |counts| {
        counts.lost == 1
    });
    let job = queue.database().job(id).unwrap().expect("still live");
    assert_eq!(
        (job.place, job.crashes, job.attempts),
        (Place::Leased, 1, 1)
    );
    // … and B alone ends it.
    gate_b.open();
    counted(&b, "the job to be done", |counts| counts.done == 1);
    assert!(queue.is_drained().unwrap());

    let counts = stop(a).counts;
    assert_eq!(
        (
            counts.done,
            counts.retried,
            counts.dead,
            counts.snoozed,
            counts.lost
        ),
        (0, 0, 0, 0, 1)
    );
    assert_eq!(stop(b).counts.lost, 0);
    assert_eq!((runs_a.of(id), runs_b.of(id)), (1, 1));
    assert!(queue.database().letter(id).unwrap().is_none());
    assert!(queue.is_drained().unwrap(), "it was not opened again");
}

#[test]
fn a_lost_lease_cannot_settle_as_done() {
    stale(done);
}

#[test]
fn a_lost_lease_cannot_kill_the_job() {
    stale(reject);
}

#[test]
fn a_lost_lease_cannot_retry_the_job() {
    stale(retry);
}

#[test]
fn a_lost_lease_cannot_snooze_the_job() {
    stale(snooze);
}

#[test]
fn a_late_failure_does_not_reopen_a_job_that_is_done() {
    for answer in [reject as Answer, retry, done] {
        let test = TestDatabase::migrated();
        let queue = test.queue("orders");
        let (tally, gate, open) = (Tally::new(), Gate::new(), Gate::new());
        open.open();
        let a = gated(&test, &tally, &gate, answer);
        let id = queue.enqueue(&Order { number: 1 }).unwrap();
        gate.wait_for(1);
        lose_leases(&mut test.client());
        let b = gated(&test, &tally, &open, done);
        counted(&b, "the job to be done", |counts| counts.done == 1);
        gate.open();
        counted(&a, "the stale result to be refused", |counts| {
            counts.lost == 1
        });
        stop(a);
        stop(b);
        assert!(queue.is_drained().unwrap());
        assert!(queue.database().letter(id).unwrap().is_none());
        assert_eq!(tally.of(id), 2);
    }
}

#[test]
fn a_late_success_does_not_recover_a_letter_that_is_open() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let (tally, gate, open) = (Tally::new(), Gate::new(), Gate::new());
    open.open();
    let first = gated(&test, &tally, &open, reject);
    let id = queue.enqueue(&Order { number: 1 }).unwrap();
    drained(&queue);
    stop(first);

    // Redriven, A has it, loses it, and B sees it die again.
    queue
        .database()
        .redrive(&Letters::ids([id]), &Act::new())
        .unwrap();
    let a = gated(&test, &tally, &gate, done);
    gate.wait_for(1);
    lose_leases(&mut test.client());
    let b = gated(&test, &tally, &open, reject);
    drained(&queue);
    gate.open();
    counted(&a, "the stale result to be refused", |counts| {
        counts.lost == 1
    });
    stop(a);
    stop(b);
    let letter = queue.database().letter(id).unwrap().expect("a letter");
    assert_eq!((letter.state, letter.generation), (LetterState::Open, 1));
}

#[test]
fn a_worker_takes_back_the_jobs_of_one_that_does_not_renew() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let (tally, gate) = (Tally::new(), Gate::new());
    let a = gated(&test, &tally, &gate, done);
    let id = queue.enqueue(&Order { number: 1 }).unwrap();
    gate.wait_for(1);
    // A renews every 20 seconds; before that, B finds its lease run out.
    test.client()
        .execute(
            "UPDATE redrive.workers SET expires_at = clock_timestamp() - interval '1 second'",
            &[],
        )
        .unwrap();
    let b = worker(&test.queue("orders"))
        .lease(Duration::from_secs(2))
        .handle({
            let tally = tally.clone();
            move |job: &Job<Order>| {
                tally.count(job.id());
                Ok(())
            }
        })
        .start()
        .unwrap();
    counted(&b, "B to do the job of A", |counts| counts.done == 1);
    gate.open();
    counted(&a, "the stale result to be refused", |counts| {
        counts.lost == 1
    });
    stop(a);
    stop(b);
    assert_eq!(tally.of(id), 2);
    assert!(queue.database().letter(id).unwrap().is_none());
}

#[test]
fn a_lease_is_kept_for_as_long_as_its_worker_renews() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let (tally, gate) = (Tally::new(), Gate::new());
    let a = worker(&test.queue("orders"))
        .lease(Duration::from_secs(2))
        .handle({
            let (tally, gate) = (tally.clone(), gate.clone());
            move |job: &Job<Hold>| {
                tally.count(job.id());
                gate.pass();
                Ok(())
            }
        })
        .start()
        .unwrap();
    let b = worker(&test.queue("orders"))
        .lease(Duration::from_secs(2))
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    let id = queue.enqueue(&Hold {}).unwrap();
    gate.wait_for(1);
    // The job outlives its lease several times over, with a reaper beside it.
    let mut client = test.client();
    let asked = "SELECT clock_timestamp() > claimed_at + interval '5 seconds' FROM redrive.leases";
    wait_until("the job to run for longer than two leases", SOON, || {
        client.query_one(asked, &[]).expect("the lease").get(0)
    });
    gate.open();
    counted(&a, "the job to be done", |counts| counts.done == 1);
    assert_eq!(stop(a).counts.lost, 0);
    stop(b);
    assert_eq!(tally.of(id), 1);
}

#[test]
fn a_worker_that_cannot_renew_tells_its_handlers_and_starts_nothing() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let (told, begun) = (Arc::new(AtomicBool::new(false)), Gate::new());
    let a = worker(&test.queue("orders"))
        .lease(Duration::from_secs(2))
        .handle({
            let (told, begun) = (Arc::clone(&told), begun.clone());
            begun.open();
            move |job: &Job<Hold>| {
                begun.pass();
                while !job.is_cancelled() {
                    thread::yield_now();
                }
                told.store(true, Ordering::SeqCst);
                Ok(())
            }
        })
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    queue.enqueue(&Hold {}).unwrap();
    begun.wait_for(1);
    // As long as somebody else holds the worker's row, it cannot be renewed.
    let mut client = test.client();
    let mut tx = client.transaction().unwrap();
    tx.query("SELECT FROM redrive.workers FOR UPDATE", &[])
        .unwrap();
    wait_until("the handler to be told", SOON, || {
        told.load(Ordering::SeqCst)
    });
    let next = queue.enqueue(&Order { number: 1 }).unwrap();
    let job = queue.database().job(next).unwrap().expect("a live job");
    assert_eq!(
        (job.place, job.attempts),
        (Place::Ready, 0),
        "claimed without trust in a lease"
    );
    tx.rollback().unwrap();
    // It recovers by itself.
    counted(&a, "both jobs to be done", |counts| counts.done == 2);
    stop(a);
}

#[test]
fn one_late_lease_does_not_settle_for_another() {
    // A has two leases, one of which is lost: the verdicts of the other count.
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let gate = Gate::new();
    let a = worker(&test.queue("orders"))
        .slots(2)
        .handle({
            let gate = gate.clone();
            move |job: &Job<Order>| {
                gate.pass();
                match job.payload().number {
                    1 => Err(Failure::reject("the first")),
                    _ => Err(Failure::reject("the second")),
                }
            }
        })
        .start()
        .unwrap();
    let first = queue.enqueue(&Order { number: 1 }).unwrap();
    gate.wait_for(1);
    let second = queue.enqueue(&Order { number: 2 }).unwrap();
    gate.wait_for(2);
    let taken = test
        .client()
        .execute(
            "DELETE FROM redrive.leases WHERE (jobs[1]).id = $1",
            &[&first.get()],
        )
        .unwrap();
    assert_eq!(taken, 1);
    gate.open();
    counted(&a, "one death and one refusal", |counts| {
        counts.dead == 1 && counts.lost == 1
    });
    stop(a);
    assert!(queue.database().letter(first).unwrap().is_none());
    let letter = queue.database().letter(second).unwrap().expect("a letter");
    assert_eq!(letter.error_message, "the second");
}

#[test]
fn an_attempt_is_charged_by_the_claim_and_given_back_by_the_reaper() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let (tally, gate) = (Tally::new(), Gate::new());
    let a = gated(&test, &tally, &gate, done);
    let id = queue
        .add(NewJob::new(&Order { number: 1 }).unwrap().max_attempts(1))
        .unwrap();
    gate.wait_for(1);
    let job = queue.database().job(id).unwrap().expect("a live job");
    assert_eq!(
        (job.place, job.attempts, job.crashes),
        (Place::Leased, 1, 0)
    );
    assert!(job.worker.is_some() && job.host.is_some());
    assert_eq!(lose_leases(&mut test.client()), [Lost::Back(id)]);
    let job = queue.database().job(id).unwrap().expect("a live job");
    assert_eq!((job.place, job.attempts, job.crashes), (Place::Ready, 0, 1));
    assert_eq!(job.history[0].outcome, "worker_lost");
    gate.open();
    drained(&queue);
    stop(a);
}

#[test]
fn a_job_that_loses_its_worker_three_times_becomes_a_letter() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let tally = Tally::new();
    let id = queue.enqueue(&Order { number: 1 }).unwrap();
    let mut workers = Vec::new();
    for crash in 1..=3 {
        let gate = Gate::new();
        workers.push((gated(&test, &tally, &gate, done), gate.clone()));
        gate.wait_for(1);
        let expected = if crash < 3 {
            Lost::Back(id)
        } else {
            Lost::Dead(id)
        };
        // Each crash is the last worker's: the ones before have nothing any more.
        assert_eq!(lose_leases(&mut test.client()), [expected], "crash {crash}");
        test.client()
            .execute("UPDATE redrive.jobs_delayed SET run_at = now()", &[])
            .unwrap();
    }
    let letter = queue.database().letter(id).unwrap().expect("a letter");
    assert_eq!(letter.reason.as_str(), "worker_lost");
    assert_eq!(letter.history.len(), 3);
    assert!(
        letter
            .history
            .iter()
            .all(|attempt| attempt.outcome == "worker_lost")
    );
    for (worker, gate) in workers {
        gate.open();
        counted(&worker, "the stale result to be refused", |counts| {
            counts.lost == 1
        });
        stop(worker);
    }
    assert!(queue.is_drained().unwrap());
    assert_eq!(letters_in(queue.database(), "orders", LetterState::Open), 1);
    assert_eq!(tally.of(id), 3);
}

/// After a failover the database may not know of a settle that it answered: then what is settled
/// last does not stand for the whole lease, whether it is a success or not.
#[test]
fn a_lease_whose_settled_part_the_database_lost_is_not_ended() {
    let answers: [Answer; 2] = [|_| Ok(()), |_| Err(Failure::retry("not yet"))];
    for answer in answers {
        let test = TestDatabase::migrated();
        let queue = test.queue("orders");
        let ids = queue.enqueue_many(&Order::up_to(2)).unwrap();
        let gate = Gate::new();
        let worker = worker(&queue)
            .slots(2)
            .handle({
                let gate = gate.clone();
                move |job: &Job<Order>| match job.payload().number {
                    1 => {
                        gate.pass();
                        answer(job)
                    }
                    _ => Ok(()),
                }
            })
            .start()
            .unwrap();
        counted(&worker, "the quick one to be done", |counts| {
            counts.done == 1
        });
        let mut client = test.client();
        let lost = "UPDATE redrive.leases SET done = '{}' WHERE cardinality(jobs) = 2";
        assert_eq!(client.execute(lost, &[]).unwrap(), 1, "they share a lease");
        gate.open();
        counted(&worker, "the slow one to be settled", |counts| {
            counts.lost + counts.retried == 1
        });
        let first = queue.database().job(ids[1]).unwrap();
        assert_eq!(first.expect("it is not lost").place, Place::Leased);
    }
}
