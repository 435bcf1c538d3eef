//! Stops that cannot release a lease at once.

use redrive_tests::prelude::*;

use super::transaction::{at_the_gate, with_effects};

/// How long a claim may take in the test of one without an answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(3);

/// Returns whether a session of the database meets this condition.
fn has_session(client: &mut Client, condition: &str) -> bool {
    let query = format!(
        "SELECT EXISTS (SELECT FROM pg_stat_activity a
         WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND {condition})"
    );
    client.ask(&query, &[])
}

/// Locks all leases.
const LOCK: &str = "SELECT FROM redrive.leases FOR UPDATE";

#[test]
fn a_stop_waits_for_a_lease_that_another_session_has_locked() {
    let (test, queue) = with_effects();
    let gate = Gate::new();
    let worker = at_the_gate(&queue, &gate);
    queue.enqueue(&Order { number: 1 }).unwrap();
    gate.wait_for(1);
    let mut locker = test.begins(LOCK);
    let stopping = thread::spawn(move || worker.stop(Duration::ZERO));
    let mut watcher = test.client();
    let found = "a.state = 'idle' AND a.query LIKE '%counts the leases of a worker%'";
    wait_until("the stop to find the lease locked", SOON, || {
        has_session(&mut watcher, found)
    });
    // The locks of its handler do not wait for it.
    wait_until("the transaction of the handler to end", SOON, || {
        !has_session(&mut watcher, "a.query LIKE 'INSERT INTO public.effects%'")
    });
    locker.sql("ROLLBACK");
    let stopped = stopping.join().expect("the stopping thread").unwrap();
    assert_eq!((stopped.stats.released, test.count("leases")), (1, 0));
    gate.open();
}

#[test]
fn a_stop_reports_a_lease_that_stays_locked() {
    let (test, queue) = TestDatabase::with_orders();
    let (gate, worker, _) = running(&queue);
    let mut locker = test.begins(LOCK);
    let error = worker.stop(Duration::ZERO).unwrap_err();
    assert!(error.is_unavailable());
    has(error, "other sessions have locked 1 of them");
    locker.sql("ROLLBACK");
    assert!(matches!(expire_leases(&mut locker)[..], [Lost::Back(_)]));
    gate.open();
}

#[test]
fn a_stop_reports_a_claim_that_the_database_does_not_answer() {
    // The second grace is longer than the claim may take.
    for grace in [Duration::ZERO, HOUR] {
        let (test, mut client) = TestDatabase::with_client();
        let wait =
            "WHILE NOT pg_try_advisory_xact_lock_shared(1) LOOP PERFORM pg_sleep(0.01); END LOOP";
        test.before("INSERT ON redrive.leases", wait);
        client.sql("SELECT pg_advisory_lock(1)");
        let db = Database::builder(test.url()).call_timeout(CALL_TIMEOUT);
        let queue = Queue::new(&db.open().unwrap(), "orders").unwrap();
        let id = queue.enqueue(&Order { number: 1 }).unwrap();
        let worker = willing(&queue);
        let mut watcher = test.client();
        wait_until("the claim to wait", SOON, || {
            has_session(&mut watcher, "a.wait_event = 'PgSleep'")
        });
        let error = worker.stop(grace).unwrap_err();
        assert!(error.is_unavailable(), "{grace:?}: {error}");
        has(error, "a claim that the database has not answered");
        client.sql("SELECT pg_advisory_unlock(1)");
        test.reaches("leases", 1);
        assert_eq!(expire_leases(&mut client), [Lost::Back(id)]);
    }
}
