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
