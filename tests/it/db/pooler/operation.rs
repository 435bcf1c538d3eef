//! Operating through a pooler: commands, migrations, the exporter.

use std::thread;
use std::time::Duration;

use redrive::admin::Cancelled;
use redrive::dlq::{CaptureOutcome, ForeignFailure, LetterState};
use redrive::postgres::NoTls;
use redrive::r2d2::Pool;
use redrive::r2d2_postgres::PostgresConnectionManager;
use redrive::{Database, Job, Pooler, Queue};
use redrive_tests::{
    Bouncer, Exporter, Order, TestDatabase, counted, letters, letters_in, no_drift, stats, stop,
    worker,
};

use super::{CONNECTIONS, PooledDatabase, redrive, well};
use crate::exporter::{PROGRAM as EXPORTER, up};

#[test]
fn every_operator_command_works() {
    let shared = PooledDatabase::new();
    let queue = shared.queue();
    let db = queue.database();
    let ids = letters(&queue, 3);
    let foreign = |number: i64| {
        let position = number.to_string();
        ForeignFailure::new("kafka", position, "orders", "order", b"{}".to_vec())
    };
    assert!(matches!(
        db.dlq().capture(&foreign(1)).unwrap(),
        CaptureOutcome::New(_)
    ));
    let many: Vec<ForeignFailure> = (1..5).map(foreign).collect();
    assert_eq!(db.dlq().capture_many(&many).unwrap().len(), 4);
    assert_eq!(letters_in(db, "orders", LetterState::Open), 3 + 4);
    let counted = stats(db, "orders").expect("letters");
    assert_eq!(counted.open, 7);
    let waiting = queue.enqueue(&Order { number: 1 }).unwrap();
    assert!(db.admin().set_priority(waiting, 3).unwrap());
    assert_eq!(db.admin().job(waiting).unwrap().expect("live").priority, 3);
    assert_eq!(db.admin().cancel(waiting).unwrap(), Cancelled::Dead);
    assert!(db.dlq().get(ids[0]).unwrap().is_some());
    assert_eq!(
        db.dlq()
            .prune(Duration::from_secs(1), &redrive::Operator::default())
            .unwrap(),
        0
    );
    shared.nothing_is_left();
    no_drift(db);
}

#[test]
fn eight_concurrent_migrators_apply_each_migration_once_through_a_pooler() {
    let test = TestDatabase::empty();
    let bouncer = Bouncer::before(test.url(), CONNECTIONS);
    let applied: usize = thread::scope(|scope| {
        let migrators: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| bouncer.open().migrate().unwrap().len()))
            .collect();
        migrators
            .into_iter()
            .map(|migrator| migrator.join().expect("a migrator"))
            .sum()
    });
    let all = "SELECT (SELECT count(*) FROM redrive.migrations) + (SELECT count(*) FROM redrive.definitions)";
    let all: i64 = test.client().query_one(all, &[]).unwrap().get(0);
    assert_eq!(i64::try_from(applied).unwrap(), all);
    bouncer.open().check_schema().unwrap();
}

#[test]
fn a_pool_of_the_caller_works_behind_a_pooler() {
    let shared = PooledDatabase::new();
    let config = shared.bouncer.url().parse().unwrap();
    let users = Pool::builder()
        .max_size(5)
        .build(PostgresConnectionManager::new(config, NoTls))
        .unwrap();
    let db = Database::from_pool(users).pooler(Pooler::Transaction);
    let queue = Queue::new(&db, "orders").unwrap();
    let worker = worker(&queue)
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    queue.enqueue_many(&Order::up_to(20)).unwrap();
    counted(&worker, "all to be done", |counts| counts.done == 20);
    stop(worker);
    shared.nothing_is_left();
}

#[test]
fn the_command_line_works_through_a_pooler() {
    let shared = PooledDatabase::new();
    let payloads = std::env::temp_dir().join(format!("{}.ndjson", shared.test.name()));
    std::fs::write(&payloads, "{\"n\": 1}\n".repeat(2500)).unwrap();
    let file = payloads.to_str().unwrap();
    let ours = |arguments: &[&str]| {
        let arguments = [&["--pooler", "transaction"], arguments].concat();
        well(&redrive(shared.bouncer.url(), &arguments))
    };
    ours(&["migrate"]);
    ours(&["enqueue", "orders", "order", "--file", file]);
    ours(&["enqueue", "orders", "order", r#"{"n": 2}"#]);
    std::fs::remove_file(&payloads).unwrap();
    assert!(ours(&["stats"]).contains("2,501"));
    let purge = "DELETE FROM redrive.jobs WHERE payload ->> 'n' = '1'";
    shared.test.client().execute(purge, &[]).unwrap();
    ours(&[
        "work", "orders", "--exec", "exit 65", "--drain", "--slots", "2",
    ]);
    assert!(ours(&["dlq", "list", "orders"]).contains("order"));
    ours(&["dlq"]);
    ours(&[
        "dlq",
        "redrive",
        "orders",
        "--yes",
        "--no-wait",
        "--reason",
        "fixed",
    ]);
    ours(&["work", "orders", "--exec", "cat", "--drain", "--slots", "2"]);
    ours(&["audit"]);
    shared.nothing_is_left();
}

#[test]
fn the_exporter_detects_a_pooler() {
    let shared = PooledDatabase::new();
    let queue = shared.queue();
    letters(&queue, 2);
    let exporter = Exporter::start(EXPORTER, shared.bouncer.url());
    up(&exporter);
    drop(exporter);
    shared.nothing_is_left();
}
