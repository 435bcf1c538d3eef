//! Outages of the database, and their end.

use redrive_tests::prelude::*;

/// Disconnects every client and rejects new connections. Returns a session beside them.
fn away(test: &TestDatabase) -> Client {
    let mut server = Client::connect(&server_url(), NoTls).unwrap();
    let close = format!("ALTER DATABASE {} ALLOW_CONNECTIONS false", test.name());
    server.sql(&close);
    wait_until("every connection to be gone", SOON, || {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
        server.query(end, &[&test.name()]).unwrap().is_empty()
    });
    server
}

fn back(mut server: Client, test: &TestDatabase) {
    let open = format!("ALTER DATABASE {} ALLOW_CONNECTIONS true", test.name());
    server.sql(&open);
}

/// Returns the queue `orders` on a handle with short deadlines.
fn impatient(test: &TestDatabase) -> Queue {
    let db = Database::builder(test.url()).connect_timeout(Duration::from_millis(300));
    let db = db.call_timeout(Duration::from_secs(1));
    let db = eventually("a connection", || db.clone().open());
    Queue::new(&db, "orders").unwrap()
}

#[test]
fn stop_without_a_database_reports_an_error_and_returns() {
    let test = TestDatabase::migrated();
    let queue = impatient(&test);
    let (gate, worker, id) = running(&queue);
    let server = away(&test);
    let error = worker.stop(Duration::ZERO).expect_err("no server");
    assert!(error.is_unavailable(), "{error:?}");
    back(server, &test);
    // The lease runs out, and the job comes back.
    assert_eq!(expire_leases(&mut test.client()), [Lost::Back(id)]);
    gate.open();
    assert_eq!(gate.arrived(), 1);
}

#[test]
fn a_worker_survives_a_database_outage() {
    let test = TestDatabase::migrated();
    let queue = impatient(&test);
    let (gate, ended) = (Gate::new(), kept::<AtomicBool>());
    let hold = gate.passing_to(move |_: &Job<Hold>| {
        ended.store(true, Ordering::SeqCst);
        Ok(())
    });
    let worker = worker(&queue).handle(hold).runs(|_: &Job<Order>| Ok(()));
    // On a handle without the short deadlines.
    test.queue("orders").enqueue(&Hold {}).unwrap();
    gate.wait_for(1);
    let server = away(&test);
    // It ends during the outage, and an enqueue fails with a clear error.
    gate.open();
    wait_until("the handler to end", SOON, || ended.load(Ordering::SeqCst));
    let error = queue.enqueue(&Order { number: 1 }).expect_err("no server");
    assert!(error.is_unavailable(), "{error:?}");
    back(server, &test);
    // The pool may still hold a connection that the server has ended. An enqueue on it stores nothing.
    let id = eventually("an enqueue", || queue.enqueue(&Order { number: 2 }));
    done(&worker, 2);
    assert_eq!(stop(worker).stats.lost, 0);
    assert!(queue.database().dlq().get(id).unwrap().is_none());
    assert!(queue.is_drained().unwrap());
}

#[test]
fn jobs_of_an_abandoned_settle_survive_the_end_of_their_lease() {
    let test = TestDatabase::migrated();
    let queue = impatient(&test);
    let jobs = [new_order(1), NewJob::new(&Hold {}).unwrap()];
    let ids = ids(&queue.enqueue_jobs(&jobs).unwrap());
    let (early, late, tally) = (kept::<Gate>(), Gate::new(), kept::<Tally>());
    let first = move |job: &Job<Order>| {
        tally.count(job.id());
        early.pass();
        Ok(())
    };
    let worker = lively(&queue).slots(2).handle(first).runs(late.handler());
    early.wait_for(1);
    late.wait_for(1);
    let server = away(&test);
    early.open();
    lost(&worker, 1);
    back(server, &test);
    // The lease is still there, and now everything in it has ended.
    late.open();
    // An unknown lease is released when it is old enough.
    wait_until("the first job to run again", SOON, || {
        test.sql("UPDATE redrive.leases SET claimed_at = claimed_at - interval '1 minute'");
        tally.of(ids[0]) == 2
    });
    finish(&queue, worker);
}
