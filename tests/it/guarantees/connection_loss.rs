//! Connections that are lost before an answer.

use redrive_tests::prelude::*;

#[test]
fn a_job_whose_claim_reply_was_lost_returns_without_a_charge() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let worker = lively(&queue).runs(|_: &Job<Order>| Ok(()));
    // The remains of such a claim: a lease that the worker does not know.
    client.sql("INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at, claimed_at) \
             SELECT gen_random_uuid(), w.worker_id, w.queue, \
                    '{7}', '{other}', ARRAY['{}'::json], ARRAY[now()], \
                    now() - interval '1 minute' \
             FROM redrive.workers w");
    wait_until("the job to be given back", SOON, || {
        stats(queue.database(), "orders").is_some_and(|stats| stats.ready == 1 && stats.leased == 0)
    });
    let job = queue.live(JobId::new(7));
    assert_eq!((job.attempts, job.crashes), (0, 0));
    stop(worker);
}
