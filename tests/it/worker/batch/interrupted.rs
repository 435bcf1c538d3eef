//! Batches that a stop, a lost lease, an operator or a crash interrupts.

use redrive_tests::prelude::*;

use super::{Batches, ended, full_batches};
use crate::worker::leased;
use crate::worker_process::WorkerProcess;

/// Starts a worker whose batches of three orders wait at the gate. The first job is done before.
fn at_the_gate(queue: &Queue, gate: &Gate) -> Worker {
    let gate = gate.clone();
    full_batches(queue, 3, move |batch| {
        batch.jobs()[0].done();
        gate.pass();
        Ok(())
    })
}

#[test]
fn a_stop_releases_the_jobs_that_wait_for_a_batch() {
    let (test, queue) = TestDatabase::with_orders();
    let batches = kept::<Batches>();
    let worker = full_batches(&queue, 10, batches.handler());
    queue.enqueue_many(&Order::up_to(4)).unwrap();
    leased(&queue, 4);
    // So that other workers take them, even if the program never completes the stop.
    worker.stop_handle().stop();
    test.reaches("jobs", 4);
    let stopped = stop(worker);
    assert_eq!((stopped.stats.released, stopped.stats.done), (4, 0));
    assert_eq!(batches.all(), [[0; 0]; 0]);
    let left = stats(queue.database(), "orders").expect("jobs");
    assert_eq!((left.ready, left.leased), (4, 0));
    assert_eq!(test.untouched(), 4);
}

#[test]
fn a_stop_that_does_not_wait_keeps_the_decisions_and_releases_the_other_jobs() {
    let (_test, queue) = TestDatabase::with_orders();
    let gate = Gate::new();
    let worker = at_the_gate(&queue, &gate);
    let ids = queue.enqueue_many(&Order::up_to(3)).unwrap();
    gate.wait_for(1);
    let stopped = worker.stop(Duration::ZERO).unwrap();
    assert_eq!((stopped.stats.done, stopped.stats.released), (1, 2));
    let mut still_running = stopped.still_running;
    still_running.sort_unstable();
    assert_eq!(still_running, &ids[1..]);
    let left = stats(queue.database(), "orders").expect("jobs");
    assert_eq!((left.ready, left.leased), (2, 0));
    gate.open();
}

#[test]
fn an_operator_cancels_one_job_of_a_running_batch() {
    let (_test, queue) = TestDatabase::with_orders();
    let (gate, (send, seen)) = (kept::<Gate>(), mpsc::channel());
    let worker = full_batches(&queue, 2, move |batch| {
        let [first, second] = batch.jobs() else {
            return Ok(());
        };
        gate.pass();
        wait_until("the cancel", SOON, || second.is_cancelled());
        let cancelled = (first.is_cancelled(), batch.is_cancelled());
        send.send(cancelled).unwrap();
        Err(Failure::retry("cancelled"))
    });
    let ids = queue.enqueue_many(&Order::up_to(2)).unwrap();
    gate.wait_for(1);
    queue.cancels(ids[1]);
    gate.open();
    ended(&worker, 1, 1);
    stop(worker);
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), [(false, false)]);
    assert_eq!(queue.letter(ids[1]).cause, DeathCause::Manual);
}

#[test]
fn a_job_that_kills_its_process_is_dead_lettered_without_its_batch() {
    let (test, queue) = TestDatabase::with_orders();
    let job = |number| NewJob::new(&AbortBatch { kills: number == 7 }).unwrap();
    let jobs: Vec<NewJob> = (1..=20).map(job).collect();
    let killer = ids(&queue.enqueue_jobs(&jobs).unwrap())[6];
    for _ in 1..=3 {
        WorkerProcess::start(&test, &queue).wait_for_its_end();
        expire_leases(&mut test.client());
    }
    let process = WorkerProcess::start(&test, &queue);
    drained(&queue);
    drop(process);
    assert_eq!(in_state(&queue, LetterState::Open), 1);
    let letter = queue.letter(killer);
    assert_eq!(letter.cause, DeathCause::WorkerLost);
    let begun = "SELECT (SELECT count(*) FROM public.begun WHERE job = $1), \
                        (SELECT count(DISTINCT job) FROM public.finished), \
                        (SELECT count(*) FROM (SELECT FROM public.begun GROUP BY job HAVING count(*) > 3) j)";
    let begun: (i64, i64, i64) = test.client().row(begun, &[&killer.get()]);
    assert_eq!(begun, (3, 19, 0));
}
