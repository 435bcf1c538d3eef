//! Operating through a pooler: commands, migrations, the exporter.

use redrive_tests::prelude::*;

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
    let captured = db.dlq().capture(&foreign(1)).unwrap();
    assert!(matches!(captured, CaptureOutcome::New(_)));
    let many: Vec<ForeignFailure> = (1..5).map(foreign).collect();
    assert_eq!(db.dlq().capture_many(&many).unwrap().len(), 4);
    assert_eq!(letters_in(db, "orders", LetterState::Open), 3 + 4);
    let counted = stats(db, "orders").expect("letters");
    assert_eq!(counted.open, 7);
    let waiting = queue.enqueue(&Order { number: 1 }).unwrap();
    assert!(db.admin().set_priority(waiting, 3).unwrap());
    assert_eq!(db.live(waiting).priority, 3);
    assert_eq!(db.admin().cancel(waiting).unwrap(), Cancelled::Dead);
    assert!(db.dlq().get(ids[0]).unwrap().is_some());
    let pruned = db.dlq().prune(Duration::from_secs(1), &maria());
    assert_eq!(pruned.unwrap(), 0);
    shared.nothing_is_left();
    no_drift(db);
}

#[test]
fn eight_concurrent_migrators_apply_each_migration_once_through_a_pooler() {
    let test = TestDatabase::empty();
    let bouncer = Bouncer::before(test.url(), CONNECTIONS);
    let migrate = |db: Database| db.migrate().unwrap().len();
    let applied = at_once(8, |_| bouncer.open(), migrate);
    let applied: usize = applied.into_iter().sum();
    let all = "SELECT (SELECT count(*) FROM redrive.migrations) + (SELECT count(*) FROM redrive.definitions)";
    let all = scalar(&mut test.client(), all);
    assert_eq!(i64::try_from(applied).unwrap(), all);
    bouncer.open().check_schema().unwrap();
}

#[test]
fn the_command_line_works_through_a_pooler() {
    let shared = PooledDatabase::new();
    let file = TempFile::of("{\"n\": 1}\n".repeat(2500));
    let ours = |line: &str| {
        let words = words(&format!("--pooler transaction {line}"));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        well(&redrive(shared.bouncer.url(), &words))
    };
    ours("migrate");
    ours(&format!("enqueue orders order --file {file}"));
    ours("enqueue orders order '{\"n\": 2}'");
    has(ours("stats"), "2,501");
    let many = "DELETE FROM redrive.jobs WHERE payload ->> 'n' = '1'";
    shared.test.sql(many);
    ours("work orders --exec 'exit 65' --drain --slots 2");
    has(ours("dlq list orders"), "order");
    ours("dlq");
    ours("dlq redrive orders --yes --no-wait --reason fixed");
    ours("work orders --exec cat --drain --slots 2");
    ours("audit");
    shared.nothing_is_left();
}

#[test]
fn the_exporter_detects_a_pooler() {
    let shared = PooledDatabase::new();
    letters(&shared.queue(), 2);
    let exporter = Exporter::start(EXPORTER, shared.bouncer.url());
    up(&exporter);
    drop(exporter);
    shared.nothing_is_left();
}
