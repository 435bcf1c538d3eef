//! Stops that interrupt a handler in its transaction.

use redrive_tests::prelude::*;

use super::transaction::{at_the_gate, tally, with_effects};
use crate::worker_process::WorkerProcess;

#[test]
fn a_transaction_that_exceeds_the_grace_is_rolled_back_and_its_job_released() {
    let logged = Logged::start(LevelFilter::Warn);
    let (test, queue) = with_effects();
    let gate = Gate::new();
    let worker = at_the_gate(&queue, &gate);
    let id = queue.enqueue(&Order { number: 1 }).unwrap();
    gate.wait_for(1);
    let stopped = worker.stop(Duration::ZERO).unwrap();
    assert_eq!(
        (stopped.stats.released, &*stopped.still_running),
        (1, &[id][..])
    );
    super::nothing_left(&test);
    super::uncharged(&queue, id);

    // The handler ends late, and its connection is gone.
    gate.open();
    let late = format!("job={id}: finished after the stop of its worker; result rejected");
    wait_until("the late end", SOON, || {
        logged.lines().iter().any(|line| line.ends_with(&late))
    });
    assert_eq!(tally(&test), (0, 0));
    let next = at_the_gate(&queue, &gate);
    assert_eq!(finish(&queue, next).stats.done, 1);
    assert_eq!(tally(&test), (1, 1));
}

#[test]
fn a_stop_ends_the_transactions_of_its_own_handlers_only() {
    let (test, queue) = with_effects();
    let (gate, other_gate) = (Gate::new(), Gate::new());
    let worker = at_the_gate(&queue, &gate);
    let other = at_the_gate(&queue, &other_gate);
    queue.enqueue_many(&Order::up_to(2)).unwrap();
    gate.wait_for(1);
    other_gate.wait_for(1);
    let stopped = worker.stop(Duration::ZERO).unwrap();
    assert_eq!(stopped.stats.released, 1);
    // It claims the released job again once its slot is free.
    other_gate.open();
    assert_eq!(finish(&queue, other).stats.done, 2);
    assert_eq!(tally(&test), (2, 2));
    gate.open();
}

#[test]
fn stopped_processes_charge_nothing_to_a_job_in_a_transaction() {
    let (test, queue) = TestDatabase::with_orders();
    let both = [
        HoldTransaction::InStatement,
        HoldTransaction::BetweenStatements,
    ];
    let ids = queue.enqueue_many(&both).unwrap();
    // As many stops as crashes are allowed.
    for round in 1..=3 {
        let mut process = WorkerProcess::start(&test, &queue);
        let begun = "SELECT count(*) FROM public.begun";
        wait_until("both to run", SOON, || {
            scalar(&mut test.client(), begun) == 2 * round
        });
        let status = process.stop();
        assert!(status.success(), "{status}");
        super::nothing_left(&test);
        for id in &ids {
            super::uncharged(&queue, *id);
        }
    }
    let next = worker(&queue).runs(|_: &Job<HoldTransaction>| Ok(()));
    assert_eq!(finish(&queue, next).stats.done, 2);
}
