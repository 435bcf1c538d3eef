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
