//! The view `live_jobs`: the state of each job.

use redrive_tests::prelude::*;

#[test]
fn every_live_job_is_in_exactly_one_state_at_any_time() {
    let (test, queue) = TestDatabase::with_orders();
    // Jobs that keep moving: retried at once, retried later, snoozed.
    let worker = worker(&queue).slots(4).runs(|job: &Job<Order>| {
        match (job.payload().number + i64::from(job.attempt())) % 3 {
            0 => Err(Failure::retry("at once")),
            1 => Err(Failure::retry("soon").after(Duration::from_millis(1))),
            _ if fastrand::bool() => Err(Failure::snooze(Duration::from_millis(1))),
            _ => Err(Failure::retry("again")),
        }
    });
    let jobs = (1..=60).map(|number| new_order(number).max_attempts(1000));
    let jobs: Vec<NewJob> = jobs.collect();
    queue.enqueue_jobs(&jobs).unwrap();
    let mut client = test.client();
    let mut looks = 0;
    let live = "SELECT count(*), count(DISTINCT id) FROM redrive.live_jobs WHERE queue = 'orders'";
    wait_until("a few thousand moves", SOON, || {
        looks += 1;
        let seen: (i64, i64) = client.row(live, &[]);
        assert_eq!(seen, (60, 60), "at look {looks}");
        let counts = worker.stats();
        assert_eq!((counts.dead, counts.done), (0, 0));
        counts.retried + counts.snoozed >= 3000
    });
    stop(worker);
    assert!(looks > 10, "only {looks} looks");
}

#[test]
fn a_completed_job_is_not_live_while_its_lease_lasts() {
    let (test, queue) = TestDatabase::with_orders();
    let jobs = vec![NewJob::new(&Hold {}).unwrap(), new_order(1)];
    let ids = ids(&queue.enqueue_jobs(&jobs).unwrap());
    let gate = Gate::new();
    let worker = worker(&queue)
        .slots(2)
        .handle(gate.handler())
        .runs(|_: &Job<Order>| Ok(()));
    done(&worker, 1);
    let lease = "SELECT job_count, cardinality(done) FROM redrive.leases";
    let lease: (i32, i32) = test.client().row(lease, &[]);
    assert_eq!(lease, (2, 1), "they share a lease");
    let db = queue.database();
    assert!(db.admin().job(ids[1]).unwrap().is_none());
    assert_eq!(db.live(ids[0]).state, JobState::Leased);
    assert_eq!(stats(db, "orders").expect("a busy queue").leased, 1);
    assert_eq!(db.admin().cancel(ids[1]).unwrap(), Cancelled::NotLive);
    gate.open();
    assert_eq!(finish(&queue, worker).stats.done, 2);
}
