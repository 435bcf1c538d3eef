//! Migrating, arguments and connection settings.

use redrive_tests::{TestDatabase, lacks, ran_at};

#[test]
fn migrate_reports_a_missing_schema_and_creates_it() {
    let db = TestDatabase::empty();
    db.fails(1, "migrate --check");
    db.fails(2, "enqueue q k 1").tells("run `redrive migrate`");
    db.run("migrate");
    db.run("migrate --check");
    db.run("enqueue q k 1");
}

#[test]
fn migrate_check_reports_what_was_changed_by_hand() {
    let db = TestDatabase::migrated();
    let change = |sql: &str| db.client().batch_execute(sql).unwrap();
    let check = |problems: &[&str]| {
        let text = db.fails(1, "migrate --check");
        let json = db.fails(1, "migrate --check --json");
        assert_eq!(json.lines().len(), problems.len(), "{}", text.out);
        for problem in problems {
            text.shows(problem);
        }
    };
    change("CREATE INDEX mine ON redrive.dead_letters (host)");
    db.run("migrate --check");
    change("DROP INDEX redrive.dead_letters_by_kind");
    check(&["index dead_letters_by_kind is missing"]);
    change("ALTER TABLE redrive.dead_letters DISABLE TRIGGER bury");
    change("ALTER TABLE redrive.leases ALTER COLUMN queue DROP NOT NULL");
    change(
        "CREATE OR REPLACE FUNCTION redrive.refuse_death() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    );
    check(&[
        "index dead_letters_by_kind is missing",
        "trigger bury on dead_letters is disabled",
        "column leases.queue differs from the migrations",
        "function refuse_death() differs from the migrations",
    ]);
    db.run("migrate").tells("dead_letters_by_kind is missing");
    change("ALTER TABLE redrive.dead_letters ENABLE TRIGGER bury");
    change("INSERT INTO redrive.migrations VALUES (9999, '9999_later', 'x', false)");
    db.run("migrate --check");
}

#[test]
fn bad_arguments_exit_with_code_2() {
    let db = TestDatabase::migrated();
    let long = "x".repeat(101);
    for line in [
        "enqueue q k \"\\u0000\"",
        "enqueue q k {nope",
        "enqueue '' k 1",
        &format!("enqueue {long} k 1"),
        "enqueue q a\u{1b}b 1",
        "enqueue q k 1 --delay -5s",
        "enqueue q k 1 --delay 9999999d",
        "enqueue q k 1 --max-attempts -1",
        "enqueue q k 1 --priority 1001",
        "enqueue q k",
        "enqueue q k --file /nowhere.ndjson",
        "work q --exec true --lease 1ms",
        "work q --exec true --kind a --kind a",
        "dlq discard 1 --reason ' '",
        "dlq list --state asleep",
        "dlq redrive",
    ] {
        let output = db.fails(2, line);
        assert!(
            output.err.contains("error:") && output.out.is_empty(),
            "{line}: {}",
            output.err
        );
    }
    assert!(
        db.open().admin().stats(None).unwrap().is_empty(),
        "nothing was stored"
    );
}

#[test]
fn a_url_is_never_printed() {
    for url in [
        "postgres://me:s3cret@127.0.0.1:1/db",
        "postgres://me:s3cret@h:port/db",
        "postgress://me:s3cret@h/db",
    ] {
        let output = ran_at(url, &["stats"]).exits_with(2);
        lacks(&output.err, "s3cret");
        output.tells("error:");
    }
}
