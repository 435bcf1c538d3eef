//! A pooler that was not declared is an error that names the setting.

use std::time::Duration;

use redrive::{Job, Queue};
use redrive_tests::{Bouncer, Order, SOON, TestDatabase, counted, wait_until, worker};

use super::{redrive, well};

#[test]
fn the_error_for_an_undeclared_pooler_names_the_setting() {
    let test = TestDatabase::migrated();
    // One connection that all clients share.
    let bouncer = Bouncer::before(test.url(), 1);
    well(&redrive(bouncer.url(), &["stats"]));
    let output = redrive(bouncer.url(), &["stats"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    for what in [
        "--pooler transaction",
        "Pooler::Transaction",
        "already exists",
    ] {
        assert!(said.contains(what), "{said}");
    }
    // A client that declares the pooler works beside one that does not.
    let arguments = ["--pooler", "transaction", "stats"];
    well(&redrive(bouncer.url(), &arguments));
}

#[test]
fn a_worker_behind_an_undeclared_pooler_stops_with_an_error() {
    let test = TestDatabase::migrated();
    let bouncer = Bouncer::before(test.url(), 1);
    let db = redrive::connect(bouncer.url()).unwrap();
    let queue = Queue::new(&db, "orders").unwrap();
    let worker = worker(&queue)
        .lease(Duration::from_secs(2))
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    queue.enqueue(&Order { number: 1 }).unwrap();
    counted(&worker, "the job to be done", |counts| counts.done == 1);
    // Another program uses the same connection with the same statement names.
    let mut other = bouncer.client();
    other
        .batch_execute(
            "DO $$ BEGIN DEALLOCATE ALL; FOR n IN 0..2000 LOOP \
                 EXECUTE format('PREPARE s%s AS SELECT 1', n); END LOOP; END $$",
        )
        .unwrap();
    wait_until("the worker to stop", SOON, || worker.failure().is_some());
    let why = worker.failure().expect("trouble").to_owned();
    assert!(why.contains("Pooler::Transaction"), "{why}");
    worker.stop(Duration::ZERO).expect_err("it had stopped");
}
