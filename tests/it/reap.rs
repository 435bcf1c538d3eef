//! Reap: whose leases are taken back, and whose are not.

use std::time::Duration;

use redrive::Job;
use redrive_tests::{
    Gate, Lost, Order, TestDatabase, counted, drained, lose_leases, reap, reap_after, stop, worker,
};

#[test]
fn the_leases_of_a_worker_that_renews_are_left_alone() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let gate = Gate::new();
    let worker = worker(&queue)
        .handle({
            let gate = gate.clone();
            move |_: &Job<Order>| {
                gate.pass();
                Ok(())
            }
        })
        .start()
        .unwrap();
    queue.enqueue(&Order { number: 1 }).unwrap();
    gate.wait_for(1);
    let mut client = test.client();
    client
        .execute(
            "UPDATE redrive.leases SET claimed_at = now() - interval '1 day'",
            &[],
        )
        .unwrap();
    assert_eq!(
        reap(&mut client),
        [],
        "the age of the lease does not matter"
    );
    gate.open();
    drained(&queue);
    assert_eq!(stop(worker).counts.lost, 0);
}

#[test]
fn a_lease_whose_worker_has_no_row_is_given_a_lease_time() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let gate = Gate::new();
    let worker = worker(&queue)
        .handle({
            let gate = gate.clone();
            move |_: &Job<Order>| {
                gate.pass();
                Ok(())
            }
        })
        .start()
        .unwrap();
    let id = queue.enqueue(&Order { number: 1 }).unwrap();
    gate.wait_for(1);
    let mut client = test.client();
    client.execute("DELETE FROM redrive.workers", &[]).unwrap();
    assert_eq!(reap_after(&mut client, Duration::from_hours(1)), []);
    assert_eq!(reap_after(&mut client, Duration::ZERO), [Lost::Back(id)]);
    assert!(
        queue
            .database()
            .job(id)
            .unwrap()
            .is_some_and(|job| job.crashes == 1)
    );
    gate.open();
    counted(&worker, "the stale result to be refused", |counts| {
        counts.lost == 1
    });
    drained(&queue);
    stop(worker);
}

#[test]
fn jobs_that_were_settled_before_the_crash_do_not_come_back() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client
        .batch_execute(
            "INSERT INTO redrive.leases (lease_id, worker_id, queue, jobs, done) \
             SELECT gen_random_uuid(), gen_random_uuid(), 'orders', \
                    array_agg(ROW(n, 'order', 0, '{}', 1, 5, 0, 0, 0, now(), NULL, NULL, NULL)::redrive.leased_job ORDER BY n), \
                    '{1,3}' \
             FROM generate_series(1, 4) AS n",
        )
        .unwrap();
    let mut lost = reap(&mut client);
    lost.sort_by_key(|lost| match lost {
        Lost::Back(id) | Lost::Dead(id) => *id,
    });
    assert_eq!(lost, [2, 4].map(|id| Lost::Back(redrive::JobId::new(id))));
}

#[test]
fn two_reapers_at_once_take_each_job_back_once() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client
        .batch_execute(
            "INSERT INTO redrive.leases (lease_id, worker_id, queue, jobs) \
             SELECT gen_random_uuid(), gen_random_uuid(), 'orders', \
                    ARRAY[ROW(n, 'order', 0, '{}', 1, 5, 0, 0, 0, now(), NULL, NULL, NULL)::redrive.leased_job] \
             FROM generate_series(1, 3000) AS n",
        )
        .unwrap();
    let reapers: Vec<_> = (0..4)
        .map(|_| {
            let mut client = test.client();
            std::thread::spawn(move || {
                let mut taken = 0;
                loop {
                    match reap(&mut client).len() {
                        0 => return taken,
                        some => taken += some,
                    }
                }
            })
        })
        .collect();
    let taken: usize = reapers
        .into_iter()
        .map(|reaper| reaper.join().expect("a reaper"))
        .sum();
    assert_eq!(taken, 3000);
    let row = client
        .query_one("SELECT count(*), count(DISTINCT id) FROM redrive.jobs", &[])
        .unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (3000, 3000));
    assert_eq!(lose_leases(&mut client), []);
}

#[test]
fn workers_that_are_long_gone_are_forgotten() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client
        .batch_execute(
            "INSERT INTO redrive.workers (worker_id, queue, host, pid, version, slots, expires_at) VALUES \
             (gen_random_uuid(), 'orders', 'old', 1, 'v', 1, now() - interval '2 hours'), \
             (gen_random_uuid(), 'orders', 'late', 1, 'v', 1, now() - interval '2 minutes'), \
             (gen_random_uuid(), 'orders', 'alive', 1, 'v', 1, now() + interval '1 minute')",
        )
        .unwrap();
    reap(&mut client);
    let rows = client
        .query("SELECT host FROM redrive.workers ORDER BY host", &[])
        .unwrap();
    let hosts: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(hosts, ["alive", "late"]);
}
