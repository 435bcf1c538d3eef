//! Running jobs that an operator cancels: their handlers learn of it soon, and the operator waits for no lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redrive::admin::Cancelled;
use redrive::postgres::Transaction;
use redrive::{Failure, Job, Operator, Queue, Worker};
use redrive_tests::{
    Begin, Gate, Hold, Order, SOON, Sql, TestDatabase, drained, stop, wait_until, worker,
};

/// A renewal would tell the handlers, too.
const LEASE: Duration = Duration::from_mins(30);

/// Waits until the job is cancelled, and fails.
fn wait_for_cancel(job: &Job<Order>) -> Result<(), Failure> {
    wait_until("the job to be cancelled", SOON, || job.is_cancelled());
    Err(Failure::retry("cancelled"))
}

/// A worker whose handlers of both kinds tell that they run, and wait for the cancellation of their job.
fn waiting(queue: &Queue, running: &Arc<AtomicUsize>, in_transaction: bool) -> Worker {
    let running = Arc::clone(running);
    let begin = move || running.fetch_add(1, Ordering::SeqCst);
    let builder = worker(queue).lease(LEASE);
    match in_transaction {
        true => builder.handle_in_transaction(move |job: &Job<Order>, _: &mut Transaction<'_>| {
            begin();
            wait_for_cancel(job)
        }),
        false => builder.handle(move |job: &Job<Order>| {
            begin();
            wait_for_cancel(job)
        }),
    }
    .started()
}

#[test]
fn a_cancellation_reaches_its_handler_and_waits_for_no_lock() {
    for in_transaction in [true, false] {
        for locked in [true, false] {
            for audited in [true, false] {
                let (test, queue) = TestDatabase::with_orders();
                let running = Arc::default();
                let worker = waiting(&queue, &running, in_transaction);
                let id = queue.enqueue(&Order { number: 1 }).unwrap();
                wait_until("the handler to run", SOON, || {
                    running.load(Ordering::SeqCst) == 1
                });
                let mut client = test.client();
                let mut locker = client.transaction().unwrap();
                if locked {
                    let lock = "SELECT FROM redrive.leases FOR UPDATE";
                    locker.sql(lock);
                }
                let db = queue.database();
                let cancelled = match audited {
                    true => db.admin().jobs().cancel(id, &Operator::new("ann")),
                    false => db.admin().cancel(id),
                };
                assert_eq!(cancelled.unwrap(), Cancelled::Asked);
                // The verdict waits for the lease, and the cancellation has not.
                locker.commit().unwrap();
                drained(&queue);
                assert_eq!(stop(worker).stats.dead, 1);
                let letter = db.dlq().get(id).unwrap().expect("a letter");
                assert_eq!((letter.cause.as_str(), letter.attempts), ("manual", 1));
            }
        }
    }
}

#[test]
fn a_job_that_is_cancelled_while_it_waits_for_its_slot_starts_cancelled() {
    let (_test, queue) = TestDatabase::with_orders();
    let gate = Gate::new();
    let worker = worker(&queue)
        .lease(LEASE)
        .hold_for(Duration::from_hours(1))
        .handle(gate.handler())
        .handle(wait_for_cancel)
        .handle_any(|_| Ok(()))
        .started();
    super::transaction::warm_up(&queue, &worker);
    let held = redrive::NewJob::new(&Hold {}).unwrap().priority(1);
    let order = redrive::NewJob::new(&Order { number: 1 }).unwrap();
    let ids = queue.enqueue_jobs(&[held, order]).unwrap();
    gate.wait_for(1);
    wait_until("the second job to be leased", SOON, || {
        redrive_tests::stats(queue.database(), "orders").is_some_and(|stats| stats.leased == 2)
    });
    let cancelled = queue.database().admin().cancel(ids[1].id());
    assert_eq!(cancelled.unwrap(), Cancelled::Asked);
    gate.open();
    drained(&queue);
    assert_eq!(stop(worker).stats.dead, 1);
}
