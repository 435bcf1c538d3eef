//! Migrating.

use redrive_tests::prelude::*;

#[test]
fn migrate_creates_the_schema_and_its_check_reports_what_was_changed_by_hand() {
    let db = TestDatabase::empty();
    db.fails(1, "migrate --check");
    db.fails(2, "enqueue q k 1").tells("run `redrive migrate`");
    db.run("migrate");
    let change = |sql: &str| db.client().batch_execute(sql).unwrap();
    change("CREATE INDEX mine ON redrive.dead_letters (host)");
    db.run("migrate --check");
    change("DROP INDEX redrive.dead_letters_by_kind");
    db.fails(1, "migrate --check")
        .shows("index dead_letters_by_kind is missing");
    let json = db.fails(1, "migrate --check --json");
    assert_eq!(json.lines().len(), 1);
    db.run("migrate").tells("dead_letters_by_kind is missing");
    // A later version may have done it.
    change("INSERT INTO redrive.migrations VALUES (9999, '9999_later', 'x', false)");
    db.run("migrate --check");
}
