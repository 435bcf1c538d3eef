//! Truncation of drained segments: it waits for no reader, and a recent snapshot misses no job.

use redrive_tests::prelude::*;

use super::segments::step;

fn fill(test: &TestDatabase) {
    let orders = Order::up_to(500);
    test.queue("orders").enqueue_many(&orders).unwrap();
}

/// Turns the ring and claims the jobs of [`fill`]. Their segment has no job, and its space.
fn claim_all(client: &mut Client) {
    assert_eq!(step(client), "turned");
    assert_eq!(Hand::of("orders").claims(client).len(), 500);
}

/// Returns how often in a row segment 0 could not be truncated.
fn refusals(client: &mut Client) -> i16 {
    let refusals = "SELECT refusals FROM redrive.ring_segments WHERE segment = 0";
    client.ask(refusals, &[])
}

/// Ends the waits of every segment: for its next attempt and for older snapshots. A transaction of
/// any database of the server, such as that of another test, makes the snapshots of this one old.
fn retry_now(client: &mut Client) {
    client.sql("UPDATE redrive.ring_segments SET retry_at = '-infinity', drained_at = drained_at - interval '1 minute'");
}

/// Waits until segment 0 is truncated.
fn truncated(client: &mut Client) {
    wait_until("the truncation", SOON, || {
        step(client);
        scalar(client, "SELECT pg_relation_size('redrive.jobs_0')") == 0
    });
}

#[test]
fn no_claim_waits_for_a_truncation_behind_a_reader() {
    let (test, mut client) = TestDatabase::with_client();
    fill(&test);
    claim_all(&mut client);
    // It holds a lock, and no snapshot: a portal of the extended protocol would hold one.
    let mut reader = test.begins("SELECT count(*) FROM redrive.jobs");
    assert_eq!(step(&mut client), "drained");

    let mut observer = test.client();
    let waiting = "SELECT EXISTS (SELECT FROM pg_locks l WHERE NOT l.granted \
                       AND l.mode = 'AccessExclusiveLock' AND l.database = \
                           (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))";
    for attempt in 1..=3 {
        retry_now(&mut client);
        let mut turning = test.client();
        let turn = thread::spawn(move || step(&mut turning));
        while !turn.is_finished() {
            let is_queued: bool = observer.ask(waiting, &[]);
            assert!(!is_queued, "claims would wait behind the truncation");
        }
        assert_eq!(turn.join().expect("a step"), "nothing");
        assert_eq!(refusals(&mut client), attempt);
    }
    reader.sql("ROLLBACK");
    retry_now(&mut client);
    truncated(&mut client);
    assert_eq!(refusals(&mut client), 0);
}

/// Returns the numbers of ready and leased jobs that a transaction sees.
fn live(tx: &mut Transaction<'_>) -> (i64, i64) {
    let counts = "SELECT (SELECT count(*) FROM redrive.jobs), \
                         (SELECT coalesce(sum(job_count), 0)::bigint FROM redrive.leases)";
    tx.row(counts, &[])
}

#[test]
fn a_snapshot_of_ten_seconds_misses_no_job() {
    let (test, mut client) = TestDatabase::with_client();
    fill(&test);
    let mut reader = test.client();
    let mut open = snapshot(&mut reader);
    claim_all(&mut client);
    assert_eq!(step(&mut client), "drained");
    // However slow this test is, the ten seconds are not over.
    client.sql("UPDATE redrive.ring_segments SET drained_at = drained_at + interval '1 hour'");
    for _ in 0..3 {
        assert_eq!(step(&mut client), "nothing", "the snapshot is waited for");
    }
    assert_eq!(live(&mut open), (500, 0));
    drop(open);
    truncated(&mut client);
}

#[test]
fn an_older_snapshot_blocks_no_truncation() {
    let (test, mut client) = TestDatabase::with_client();
    fill(&test);
    let mut reader = test.client();
    let mut open = snapshot(&mut reader);
    claim_all(&mut client);
    assert_eq!(step(&mut client), "drained");
    retry_now(&mut client);
    assert_eq!(step(&mut client), "truncated");
    // GUARANTEES describes what such a snapshot misses.
    assert_eq!(live(&mut open), (0, 0));
    drop(open);

    // A transaction that locks the jobs before it takes its snapshot misses nothing.
    fill(&test);
    let mut open = reader.transaction().unwrap();
    open.sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; LOCK TABLE redrive.jobs IN ACCESS SHARE MODE");
    open.sql("SELECT 1");
    claim_all(&mut client);
    for _ in 0..3 {
        assert_ne!(step(&mut client), "truncated");
        retry_now(&mut client);
    }
    assert_eq!(live(&mut open), (500, 500));
}

#[test]
fn a_queue_is_not_drained_while_its_last_job_moves_into_a_lease_or_its_lease_is_rewritten() {
    let job = "INSERT INTO redrive.jobs (id, segment, queue, kind, payload) VALUES (1, 0, 'orders', 'order', '{}')";
    let lease = "INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at) \
                 VALUES (gen_random_uuid(), gen_random_uuid(), 'orders', '{1}', '{order}', ARRAY['{}'::json], '{now}')";
    for (before, table) in [(job, "redrive.jobs_0"), (lease, "redrive.leases")] {
        let (test, queue, mut client) = TestDatabase::with_session();
        client.sql(before);
        let mut moving = client.transaction().unwrap();
        moving.sql(&format!("TRUNCATE {table}"));
        let is_drained = || queue.is_drained().unwrap();
        let is_drained = held_up(&test, is_drained, || {
            moving.sql(lease);
            moving.commit().unwrap();
        });
        assert!(!is_drained, "{table}: the job is leased");
    }
}
