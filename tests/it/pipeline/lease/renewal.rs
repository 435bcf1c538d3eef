//! Renewals, and what follows when they stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redrive::admin::JobState;
use redrive::{Failure, Job};
use redrive_tests::{
    Begin, Gate, Hold, Lost, Order, SOON, Sql, Tally, TestDatabase, counted, done, drained,
    expire_leases, live_job, lost, new_order, put, stop, wait_until, worker,
};

use super::{Verdict, gated, succeed};

#[test]
fn a_worker_reaps_the_jobs_of_one_that_does_not_renew() {
    let (test, queue) = TestDatabase::with_orders();
    let (tally, gate) = (Tally::new(), Gate::new());
    let a = gated(&test, &tally, &gate, succeed);
    let id = queue.enqueue(&Order { number: 1 }).unwrap();
    gate.wait_for(1);
    // A renews every 20 seconds; before that, B finds its lease expired.
    test.client()
        .sql("UPDATE redrive.workers SET expires_at = clock_timestamp() - interval '1 second'");
    let b = worker(&test.queue("orders"))
        .lease(Duration::from_secs(2))
        .runs(tally.counting());
    done(&b, 1);
    gate.open();
    lost(&a, 1);
    stop(a);
    stop(b);
    assert_eq!(tally.of(id), 2);
    assert!(queue.database().dlq().get(id).unwrap().is_none());
}

#[test]
fn a_lease_is_kept_for_as_long_as_its_worker_renews() {
    let (test, queue) = TestDatabase::with_orders();
    let gate = Gate::new();
    let a = worker(&test.queue("orders"))
        .lease(Duration::from_secs(2))
        .runs(gate.handler());
    let b = worker(&test.queue("orders"))
        .lease(Duration::from_secs(2))
        .runs(|_: &Job<Order>| Ok(()));
    queue.enqueue(&Hold {}).unwrap();
    gate.wait_for(1);
    // The job outlives its lease several times over, with a reaper beside it.
    let mut client = test.client();
    let asked = "SELECT clock_timestamp() > claimed_at + interval '5 seconds' FROM redrive.leases";
    wait_until("the job to run for longer than two leases", SOON, || {
        client.ask(asked, &[])
    });
    gate.open();
    done(&a, 1);
    assert_eq!(stop(a).stats.lost, 0);
    stop(b);
    assert_eq!(gate.arrived(), 1);
}

#[test]
fn a_worker_that_cannot_renew_notifies_handlers_and_starts_no_job() {
    let (test, queue) = TestDatabase::with_orders();
    let (saw_loss, begun) = (Arc::new(AtomicBool::new(false)), Gate::new());
    let a = worker(&test.queue("orders"))
        .lease(Duration::from_secs(2))
        .handle({
            let (saw_loss, begun) = (Arc::clone(&saw_loss), begun.clone());
            begun.open();
            move |job: &Job<Hold>| {
                begun.pass();
                while !job.is_cancelled() {
                    thread::yield_now();
                }
                saw_loss.store(true, Ordering::SeqCst);
                Ok(())
            }
        })
        .runs(|_: &Job<Order>| Ok(()));
    queue.enqueue(&Hold {}).unwrap();
    begun.wait_for(1);
    // While another session locks the row of the worker, it cannot renew.
    let mut client = test.client();
    let mut tx = client.transaction().unwrap();
    tx.query("SELECT FROM redrive.workers FOR UPDATE", &[])
        .unwrap();
    wait_until("the handler to see it", SOON, || {
        saw_loss.load(Ordering::SeqCst)
    });
    let next = queue.enqueue(&Order { number: 1 }).unwrap();
    let job = live_job(&queue, next);
    assert_eq!(
        (job.state, job.attempts),
        (JobState::Ready, 0),
        "claimed without trust in a lease"
    );
    tx.rollback().unwrap();
    // It recovers.
    done(&a, 2);
    stop(a);
}

#[test]
fn an_attempt_is_charged_by_the_claim_and_refunded_by_the_reaper() {
    let (test, queue) = TestDatabase::with_orders();
    let (tally, gate) = (Tally::new(), Gate::new());
    let a = gated(&test, &tally, &gate, succeed);
    let id = put(&queue, new_order(1).max_attempts(1));
    gate.wait_for(1);
    let job = live_job(&queue, id);
    assert_eq!(
        (job.state, job.attempts, job.crashes),
        (JobState::Leased, 1, 0)
    );
    assert!(job.worker.is_some() && job.host.is_some());
    assert_eq!(expire_leases(&mut test.client()), [Lost::Back(id)]);
    let job = live_job(&queue, id);
    assert_eq!(
        (job.state, job.attempts, job.crashes),
        (JobState::Ready, 0, 1)
    );
    assert_eq!(job.history[0].outcome, "worker_lost");
    gate.open();
    drained(&queue);
    stop(a);
}

/// A failover can lose an acknowledged settle. The last settle of the lease must then not end it,
/// whether it is a success or not.
#[test]
fn a_lease_is_kept_if_the_database_lost_a_partial_settle() {
    let answers: [Verdict; 2] = [|_| Ok(()), |_| Err(Failure::retry("not yet"))];
    for answer in answers {
        let (test, queue) = TestDatabase::with_orders();
        let ids = queue.enqueue_many(&Order::up_to(2)).unwrap();
        let gate = Gate::new();
        let worker = worker(&queue).slots(2).runs({
            let gate = gate.clone();
            move |job: &Job<Order>| match job.payload().number {
                1 => {
                    gate.pass();
                    answer(job)
                }
                _ => Ok(()),
            }
        });
        done(&worker, 1);
        let mut client = test.client();
        let lost = "UPDATE redrive.leases SET done = '{}' WHERE job_count = 2";
        assert_eq!(client.execute(lost, &[]).unwrap(), 1, "they share a lease");
        gate.open();
        counted(&worker, "the slow one to be settled", |counts| {
            counts.lost + counts.retried == 1
        });
        let first = queue.database().admin().job(ids[1]).unwrap();
        assert_eq!(first.expect("it is not lost").state, JobState::Leased);
    }
}
