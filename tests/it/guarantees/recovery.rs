//! Recovery: the jobs of a lost worker run elsewhere, and a worker outlives what changes under its plans.

use redrive_tests::prelude::*;

/// A worker with the shortest lease, and deadlines that a busy machine keeps.
fn builder(url: &str) -> WorkerBuilder {
    let deadline = Duration::from_secs(3);
    let db = Database::builder(url).connect_timeout(deadline);
    let db = db.call_timeout(deadline).open().unwrap();
    let queue = Queue::new(&db, "orders").unwrap();
    lively(&queue).handle(|_: &Job<Order>| Ok(()))
}

#[test]
fn the_jobs_of_a_lost_worker_are_claimed_by_another() {
    let test = TestDatabase::migrated();
    let proxy = Proxy::to(test.url());
    let (gate, second) = (Gate::new(), Gate::new());
    let hold = |url: &str, gate: &Gate| builder(url).handle(gate.handler());
    let gone = hold(proxy.url(), &gate).started();
    let queue = test.queue("orders");
    queue.enqueue(&Hold {}).unwrap();
    gate.wait_for(1);
    let other = hold(test.url(), &second).started();
    // It can no longer renew.
    proxy.set_mode(Mode::Refuse);
    second.wait_for(1);
    second.open();
    wait_until("the other to end the job", SOON, || other.stats().done == 1);
    gate.open();
    drop((gone, other));
}

#[test]
fn a_worker_survives_schema_changes_under_its_plans() {
    let (test, queue, mut client) = TestDatabase::with_session();
    let worker = builder(test.url()).started();
    // So many are copied, and with all that is beyond a plain job.
    let labelled = vec![new_order(1).priority(3); 1001];
    for change in [
        "ALTER TABLE redrive.jobs ADD COLUMN one_more text",
        "ALTER TYPE redrive.job_meta ADD ATTRIBUTE one_more text",
        "ALTER TABLE redrive.workers ADD COLUMN one_more text",
        "ALTER TABLE redrive.leases ADD COLUMN one_more text",
        "ANALYZE",
    ] {
        queue.enqueue_many(&Order::up_to(50)).unwrap();
        client.sql(change);
        queue.enqueue_many(&Order::up_to(50)).unwrap();
        queue.enqueue_jobs(&labelled).unwrap();
        drained(&queue);
    }
    let stopped = stop(worker);
    assert_eq!((stopped.stats.done, stopped.stats.retried), (5 * 1101, 0));
}
