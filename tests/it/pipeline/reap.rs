//! Reap: which leases are reaped, and which are not.

use redrive_tests::prelude::*;

#[test]
fn the_leases_of_a_worker_that_renews_are_left_alone() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let (gate, worker, _) = running(&queue);
    client.sql("UPDATE redrive.leases SET claimed_at = now() - interval '1 day'");
    assert_eq!(reap(&mut client), [], "its age does not matter");
    gate.open();
    assert_eq!(finish(&queue, worker).stats.lost, 0);
}

#[test]
fn two_concurrent_reapers_return_each_job_once() {
    let (test, mut client) = TestDatabase::with_client();
    client
        .sql("INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at) \
             SELECT gen_random_uuid(), gen_random_uuid(), 'orders', \
                    ARRAY[n], '{order}', ARRAY['{}'::json], ARRAY[now()] \
             FROM generate_series(1, 3000) AS n");
    let reap_all = |mut client: Client| {
        let reaps = std::iter::repeat_with(|| reap(&mut client).len());
        reaps.take_while(|taken| *taken > 0).sum::<usize>()
    };
    let taken: usize = at_once(4, |_| test.client(), reap_all).iter().sum();
    assert_eq!(taken, 3000);
    let counts = "SELECT count(*), count(DISTINCT id) FROM redrive.jobs";
    assert_eq!(client.row::<(i64, i64)>(counts, &[]), (3000, 3000));
    assert_eq!(expire_leases(&mut client), []);
}

#[test]
fn rows_of_old_workers_are_deleted() {
    let (_test, mut client) = TestDatabase::with_client();
    client
        .sql("INSERT INTO redrive.workers (worker_id, queue, host, pid, version, slots, expires_at) VALUES \
             (gen_random_uuid(), 'orders', 'old', 1, 'v', 1, now() - interval '2 hours'), \
             (gen_random_uuid(), 'orders', 'late', 1, 'v', 1, now() - interval '2 minutes'), \
             (gen_random_uuid(), 'orders', 'alive', 1, 'v', 1, now() + interval '1 minute')");
    reap(&mut client);
    let hosts = "SELECT host FROM redrive.workers ORDER BY host";
    let hosts: Vec<String> = client.column(hosts, &[]);
    assert_eq!(hosts, ["alive", "late"]);
}

/// Leases of a lost worker, with four jobs of 256 KiB each.
fn large_leases(client: &mut Client, count: i32) {
    client
        .change("INSERT INTO redrive.leases (lease_id, worker_id, queue, claimed_at, ids, kinds, enqueued_at, payloads) \
             SELECT gen_random_uuid(), gen_random_uuid(), 'orders', now() - n * interval '1 hour', j.* \
             FROM generate_series(1, $1) AS n, LATERAL ( \
                 SELECT array_agg(10 * n + i), array_agg('order'::text), array_agg(now()), \
                        array_agg((SELECT json_build_object('n', string_agg(md5(random()::text || g || i), '')) \
                                   FROM generate_series(1, 8192) g)) \
                 FROM generate_series(1, 4) i) j", &[&count]);
}

#[test]
fn a_reap_is_bounded_but_takes_at_least_one_lease() {
    let (_test, mut client) = TestDatabase::with_client();
    large_leases(&mut client, 6);
    let any = i64::MAX;
    for (bytes, jobs, leases, reaped) in [
        (1, any, 1000, 4),
        (any, 1, 1000, 4),
        (any, 11, 1000, 8),
        (any, any, 1, 4),
        (any, any, 1000, 4),
    ] {
        let mut limits = ReapLimits::default();
        (limits.bytes, limits.jobs, limits.leases) = (bytes, jobs, leases);
        let lost = reap_within(&mut client, Duration::ZERO, limits);
        assert_eq!(lost.len(), reaped, "{limits:?}");
    }
    assert_eq!(expire_leases(&mut client), []);
}

/// Inserts or replaces a worker, with times relative to now in hours.
fn place_worker(client: &mut Client, id: Uuid, started: i32, expires: i32) {
    client
        .change("INSERT INTO redrive.workers (worker_id, queue, host, pid, version, slots, started_at, expires_at) \
             VALUES ($1, 'orders', 'h', 1, 'v', 1, now() + $2 * interval '1 hour', now() + $3 * interval '1 hour') \
             ON CONFLICT (worker_id) DO UPDATE \
             SET started_at = excluded.started_at, expires_at = excluded.expires_at", &[&id, &f64::from(started), &f64::from(expires)]);
}

#[test]
fn a_new_worker_waits_one_lease_unless_an_older_worker_has_renewed() {
    let (test, mut client) = TestDatabase::with_client();
    let (me, older) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let mine = ReapLimits {
        worker: me,
        ..ReapLimits::default()
    };
    let lease = Duration::from_secs(2);
    let mut reaped = || {
        large_leases(&mut client, 1);
        let count = reap_within(&mut client, lease, mine).len();
        client.sql("TRUNCATE redrive.leases, redrive.jobs");
        count
    };
    let mut other = test.client();
    // It starts in an hour, so that it is young for as long as the test takes.
    place_worker(&mut other, me, 1, 1);
    assert_eq!(reaped(), 0, "it is alone");
    place_worker(&mut other, older, -3, -1);
    assert_eq!(reaped(), 0, "the older one may be reconnecting");
    place_worker(&mut other, older, 1, 1);
    assert_eq!(reaped(), 0, "the other one is new too");
    place_worker(&mut other, older, -3, 1);
    assert_eq!(reaped(), 4, "the older one has renewed");
    place_worker(&mut other, older, -3, -1);
    place_worker(&mut other, me, -1, 1);
    assert_eq!(reaped(), 4, "it is a lease old");
}
