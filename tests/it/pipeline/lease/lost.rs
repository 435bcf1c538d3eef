//! A worker that lost its lease cannot change a job.

use redrive_tests::prelude::*;

use super::{Verdict, gated, retry, stale, succeed};

fn reject(_: &Job<Order>) -> Result<(), Failure> {
    Err(Failure::reject("a stale result"))
}

fn snooze(_: &Job<Order>) -> Result<(), Failure> {
    Err(Failure::snooze(Duration::ZERO))
}

#[test]
fn a_worker_that_lost_its_lease_cannot_end_retry_or_snooze_a_job() {
    for answer in [succeed as Verdict, reject, retry, snooze] {
        stale(answer);
    }
}

#[test]
fn a_late_failure_does_not_reopen_a_completed_job() {
    for answer in [reject as Verdict, retry, succeed] {
        let (test, queue) = TestDatabase::with_orders();
        let (tally, gate, open) = (Tally::new(), Gate::new(), Gate::new());
        open.open();
        let a = gated(&test, &tally, &gate, answer);
        let id = queue.enqueue(&Order { number: 1 }).unwrap();
        gate.wait_for(1);
        expire_leases(&mut test.client());
        let b = gated(&test, &tally, &open, succeed);
        done(&b, 1);
        gate.open();
        lost(&a, 1);
        stop(a);
        stop(b);
        assert!(queue.is_drained().unwrap());
        assert!(queue.database().dlq().get(id).unwrap().is_none());
        assert_eq!(tally.of(id), 2);
    }
}

#[test]
fn a_late_success_does_not_recover_an_open_letter() {
    let (test, queue) = TestDatabase::with_orders();
    let (tally, gate, open) = (Tally::new(), Gate::new(), Gate::new());
    open.open();
    let first = gated(&test, &tally, &open, reject);
    let id = queue.enqueue(&Order { number: 1 }).unwrap();
    finish(&queue, first);

    // After a redrive A claims the job and loses its lease, and the job dies in B.
    queue.redrives(&only(id));
    let a = gated(&test, &tally, &gate, succeed);
    gate.wait_for(1);
    expire_leases(&mut test.client());
    let b = gated(&test, &tally, &open, reject);
    drained(&queue);
    gate.open();
    lost(&a, 1);
    stop(a);
    stop(b);
    let letter = queue.letter(id);
    assert_eq!((letter.state, letter.generation), (LetterState::Open, 1));
}

#[test]
fn an_expired_lease_does_not_block_the_settle_of_another() {
    // A has two leases and loses one: the verdicts of the other count.
    let (test, queue) = TestDatabase::with_orders();
    let gate = Gate::new();
    let a = worker(&queue).slots(2).runs(gate.passing_to(reject));
    let [first, second] = [1, 2].map(|number| {
        let id = queue.enqueue(&Order { number: 1 }).unwrap();
        gate.wait_for(number);
        id
    });
    let taken = "DELETE FROM redrive.leases WHERE ids[1] = $1";
    test.client().change(taken, &[&first.get()]);
    gate.open();
    counted(&a, "one death and one refusal", |counts| {
        counts.dead == 1 && counts.lost == 1
    });
    stop(a);
    assert!(queue.database().dlq().get(first).unwrap().is_none());
    queue.letter(second);
}
