//! Suspects: jobs that lost their worker run one at a time, until it is known how they ended.

use redrive::{Job, JobId, NewJob, Queue};
use redrive_tests::{Gate, Order, SOON, Tally, TestDatabase, drained, stop, wait_until, worker};

#[test]
fn a_process_runs_one_suspect_at_a_time() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = suspects(&test, &queue, 3);
    let (tally, gate) = (Tally::new(), Gate::new());
    let a = worker(&test.queue("orders"))
        .slots(8)
        .handle({
            let (tally, gate) = (tally.clone(), gate.clone());
            move |job: &Job<Order>| {
                tally.count(job.id());
                gate.pass();
                Ok(())
            }
        })
        .start()
        .unwrap();
    gate.wait_for(1);
    // Jobs without a past pass the other suspects by.
    let others = queue.enqueue_many(&Order::up_to(5)).unwrap();
    gate.wait_for(6);
    assert!(others.iter().all(|id| tally.of(*id) == 1));
    assert_eq!(ids.iter().filter(|id| tally.of(**id) == 1).count(), 1);
    let alone =
        "SELECT count(*) FROM redrive.leases WHERE (jobs[1]).crashes > 0 AND cardinality(jobs) = 1";
    let alone: i64 = test.client().query_one(alone, &[]).unwrap().get(0);
    assert_eq!(alone, 1, "the suspect has a lease of its own");
    gate.open();
    drained(&queue);
    stop(a);
    assert_eq!((tally.jobs(), tally.repeated()), (8, vec![]));
}

/// Jobs that have lost a worker once.
fn suspects(test: &TestDatabase, queue: &Queue, count: i64) -> Vec<JobId> {
    let ids = queue.enqueue_many(&Order::up_to(count)).unwrap();
    // Rows of `jobs` are never updated, but by a test.
    let updated = test
        .client()
        .execute("UPDATE redrive.jobs SET crashes = 1", &[])
        .unwrap();
    assert_eq!(updated, count.unsigned_abs());
    ids
}

#[test]
fn a_suspect_is_alone_until_the_database_knows_how_it_ended() {
    // If the next suspect began earlier and killed the process, this one would be blamed too.
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let suspects = queue.enqueue_many(&Order::up_to(2)).unwrap();
    test.client()
        .execute("UPDATE redrive.jobs SET crashes = 1", &[])
        .unwrap();
    let (tally, gate) = (Tally::new(), Gate::new());
    let worker = worker(&test.queue("orders"))
        .slots(2)
        .handle({
            let (tally, gate) = (tally.clone(), gate.clone());
            move |job: &Job<Order>| {
                tally.count(job.id());
                gate.pass();
                Ok(())
            }
        })
        .start()
        .unwrap();
    gate.wait_for(1);
    assert_eq!(tally.of(suspects[0]), 1);
    // The settle of the first suspect has to wait for this lock.
    let mut client = test.client();
    let mut tx = client.transaction().unwrap();
    tx.query("SELECT FROM redrive.leases FOR UPDATE", &[])
        .unwrap();
    gate.open();
    // A claim that comes after it ended finds this job, and would find the suspect before it.
    let next = queue
        .add(NewJob::new(&Order { number: 3 }).unwrap().priority(-1))
        .unwrap();
    wait_until("the next job to begin", SOON, || tally.of(next) == 1);
    let after = queue
        .add(NewJob::new(&Order { number: 4 }).unwrap().priority(-2))
        .unwrap();
    wait_until("the one after it to begin", SOON, || tally.of(after) == 1);
    assert_eq!(
        tally.of(suspects[1]),
        0,
        "the second suspect began before the first was settled"
    );
    tx.rollback().unwrap();
    drained(&queue);
    stop(worker);
    assert_eq!(tally.of(suspects[1]), 1);
}

#[test]
fn suspects_run_in_the_order_of_the_queue() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let jobs = [0, 5, 0, -5, 5].map(|priority| {
        NewJob::new(&Order { number: 1 })
            .unwrap()
            .priority(priority)
    });
    let ids = queue.add_many(jobs.to_vec()).unwrap();
    test.client()
        .execute(
            "UPDATE redrive.jobs SET crashes = 1 WHERE id = ANY ($1)",
            &[&vec![ids[0].get(), ids[4].get()]],
        )
        .unwrap();
    let tally = Tally::new();
    let worker = worker(&queue)
        .handle({
            let tally = tally.clone();
            move |job: &Job<Order>| {
                tally.count(job.id());
                Ok(())
            }
        })
        .start()
        .unwrap();
    drained(&queue);
    stop(worker);
    assert_eq!((tally.jobs(), tally.repeated()), (5, vec![]));
    let order = tally.order();
    let place = |id: JobId| order.iter().position(|other| *other == id).expect("it ran");
    assert!(
        place(ids[1]) < place(ids[2]) && place(ids[2]) < place(ids[3]),
        "{order:?}"
    );
    assert!(
        place(ids[4]) < place(ids[0]),
        "the suspect of higher priority first: {order:?}"
    );
}
