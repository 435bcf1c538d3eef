//! Migrating, arguments and connection settings.

use redrive_tests::{TestDatabase, ran_at};

use super::redrive;

#[test]
fn migrate_reports_a_missing_schema_and_creates_it() {
    let db = TestDatabase::empty();
    redrive(&db, &["migrate", "--check"]).exits_with(1);
    let output = redrive(&db, &["enqueue", "q", "k", "1"]).exits_with(2);
    assert!(
        output.err.contains("run `redrive migrate`"),
        "{}",
        output.err
    );
    redrive(&db, &["migrate"]).exits_with(0);
    redrive(&db, &["migrate", "--check"]).exits_with(0);
    redrive(&db, &["enqueue", "q", "k", "1"]).exits_with(0);
}

#[test]
fn migrate_check_reports_what_was_changed_by_hand() {
    let db = TestDatabase::migrated();
    let change = |sql: &str| db.client().batch_execute(sql).unwrap();
    let check = |problems: &[&str]| {
        let text = redrive(&db, &["migrate", "--check"]).exits_with(1);
        let json = redrive(&db, &["migrate", "--check", "--json"]).exits_with(1);
        assert_eq!(json.lines().len(), problems.len(), "{}", text.out);
        for problem in problems {
            assert!(text.out.contains(problem), "{problem}: {}", text.out);
        }
    };
    change("CREATE INDEX mine ON redrive.dead_letters (host)");
    redrive(&db, &["migrate", "--check"]).exits_with(0);
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
    let migrated = redrive(&db, &["migrate"]).exits_with(0);
    assert!(
        migrated.err.contains("dead_letters_by_kind is missing"),
        "{}",
        migrated.err
    );
    change("ALTER TABLE redrive.dead_letters ENABLE TRIGGER bury");
    change("INSERT INTO redrive.migrations VALUES (9999, '9999_later', 'x', false)");
    redrive(&db, &["migrate", "--check"]).exits_with(0);
}

#[test]
fn bad_arguments_exit_with_code_2() {
    let db = TestDatabase::migrated();
    let long = "x".repeat(101);
    for arguments in [
        &["enqueue", "q", "k", "\"\\u0000\""][..],
        &["enqueue", "q", "k", "{nope"],
        &["enqueue", "", "k", "1"],
        &["enqueue", &long, "k", "1"],
        &["enqueue", "q", "a\u{1b}b", "1"],
        &["enqueue", "q", "k", "1", "--delay", "-5s"],
        &["enqueue", "q", "k", "1", "--delay", "9999999d"],
        &["enqueue", "q", "k", "1", "--max-attempts", "-1"],
        &["enqueue", "q", "k", "1", "--priority", "1001"],
        &["enqueue", "q", "k"],
        &["enqueue", "q", "k", "--file", "/nowhere.ndjson"],
        &["work", "q", "--exec", "true", "--lease", "1ms"],
        &["work", "q", "--exec", "true", "--kind", "a", "--kind", "a"],
        &["dlq", "discard", "--id", "1", "--reason", " "],
        &["dlq", "list", "--state", "asleep"],
        &["dlq", "redrive"],
    ] {
        let output = redrive(&db, arguments).exits_with(2);
        assert!(
            output.err.contains("error:") && output.out.is_empty(),
            "{arguments:?}: {}",
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
        assert!(
            !output.err.contains("s3cret") && output.err.contains("error:"),
            "{}",
            output.err
        );
    }
}
