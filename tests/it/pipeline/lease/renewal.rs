//! Renewals, and what follows when they stop.

use redrive_tests::prelude::*;

use super::Verdict;

#[test]
fn a_worker_that_cannot_renew_notifies_handlers_and_starts_no_job() {
    let (test, queue) = TestDatabase::with_orders();
    let (begun, saw_loss) = (Gate::new(), kept::<Gate>());
    begun.open();
    saw_loss.open();
    let see = begun.passing_to(move |job: &Job<Hold>| {
        wait_until("the loss", SOON, || job.is_cancelled());
        saw_loss.pass();
        Ok(())
    });
    let builder = lively(&queue).handle(see);
    let a = builder.runs(|_: &Job<Order>| Ok(()));
    queue.enqueue(&Hold {}).unwrap();
    begun.wait_for(1);
    // While another session locks the row of the worker, it cannot renew.
    let mut client = test.client();
    let mut tx = client.transaction().unwrap();
    tx.sql("SELECT FROM redrive.workers FOR UPDATE");
    saw_loss.wait_for(1);
    let next = queue.enqueue(&Order { number: 1 }).unwrap();
    let job = live_job(&queue, next);
    assert_eq!(job.attempts, 0, "claimed without trust in a lease");
    assert_eq!(job.state, JobState::Ready);
    tx.rollback().unwrap();
    // It recovers.
    done(&a, 2);
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
        let gate = kept::<Gate>();
        let builder = worker(&queue).slots(2);
        let worker = builder.runs(move |job: &Job<Order>| match job.payload().number {
            1 => {
                gate.pass();
                answer(job)
            }
            _ => Ok(()),
        });
        done(&worker, 1);
        let mut client = test.client();
        let lost = "UPDATE redrive.leases SET done = '{}' WHERE job_count = 2";
        assert_eq!(client.execute(lost, &[]).unwrap(), 1, "they share a lease");
        gate.open();
        counted(&worker, "the slow one to be settled", |counts| {
            counts.lost + counts.retried == 1
        });
        assert_eq!(live_job(&queue, ids[1]).state, JobState::Leased);
    }
}
