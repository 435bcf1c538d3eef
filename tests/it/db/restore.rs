//! A dump that is restored: the schema is the same, and data in a migrated schema can be repaired.

use std::path::Path;

use redrive_tests::prelude::*;

/// Runs a program of the server's version. Returns whether it succeeded, and its messages.
fn run(test: &TestDatabase, program: &str, arguments: &[&str]) -> (bool, String) {
    let place = "SELECT setting FROM pg_config WHERE name = 'BINDIR'";
    let place: String = test.client().ask(place, &[]);
    let mut command = Command::new(Path::new(&place).join(program));
    let done = command.args(arguments).output().expect(program);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    (done.status.success(), said)
}

/// Dumps a database with letters, a redriven one and a unique job.
fn dumped(source: &TestDatabase) -> TempFile {
    let queue = source.queue("orders");
    let ids = letters(&queue, 5);
    queue.redrives(&only(ids[0]));
    put(&queue, new_order(1).unique("a"));
    no_drift(queue.database());
    let dump = TempFile::of("");
    let path = dump.to_string();
    let to = ["--format=custom", "--file", &path, "--dbname", source.url()];
    let (done, said) = run(source, "pg_dump", &to);
    assert!(done, "{said}");
    dump
}

#[test]
fn a_restored_dump_is_no_drift_and_needs_no_repair() {
    let (source, copy) = (TestDatabase::migrated(), TestDatabase::empty());
    let file = dumped(&source);
    let arguments = ["--dbname", copy.url(), &file.to_string()];
    let (done, said) = run(&copy, "pg_restore", &arguments);
    assert!(done, "{said}");
    let db = copy.open();
    assert_eq!(db.admin().schema_drift().unwrap(), [""; 0]);
    copy.run("migrate --check");
    assert_eq!(db.admin().faults().unwrap(), []);
    no_drift(&db);
}

#[test]
fn data_that_is_restored_into_a_migrated_schema_is_repaired() {
    let (source, copy) = (TestDatabase::migrated(), TestDatabase::migrated());
    let file = dumped(&source);
    // Tables that the migrations fill already have these rows.
    let file = file.to_string();
    let arguments = ["--data-only", "--dbname", copy.url(), &file];
    run(&copy, "pg_restore", &arguments);
    let db = copy.open();
    let found = db.admin().repair(&Operator::default()).unwrap();
    let counter = found.iter().find(|fault| fault.kind == "counter");
    assert!(counter.is_some(), "counted again by triggers: {found:?}");
    assert_eq!(db.admin().faults().unwrap(), []);
    no_drift(&db);
    assert_eq!(letters_in(&db, "orders", LetterState::Open), 4);
}
