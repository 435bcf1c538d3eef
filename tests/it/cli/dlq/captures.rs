//! Captured failures: `redrive dlq capture` of closed ones, and their sources on the on-call screen.

use redrive_tests::prelude::*;

fn discard(db: &TestDatabase, id: JobId) {
    db.run(format!("dlq discard {id} --reason refunded"));
}

#[test]
fn the_command_says_that_a_letter_was_reopened() {
    let (test, db) = TestDatabase::opened();
    let failure = ForeignFailure::new("kafka:orders", "1", "orders", "order", *b"{}")
        .error("Timeout", "no answer");
    let id = db.captures(&failure);
    let line = r#"{"source":"kafka:orders","position":"1","queue":"orders","kind":"order","payload":{"number":1},"error_class":"SchemaMismatch","error_message":"missing field"}"#;
    let file = TempFile::of(line);

    discard(&test, id);
    test.run(format!(
        "dlq capture kafka:orders 1 orders order {file} --error-class Other"
    ))
    .prints(format!("{id}\n"))
    .tells(format!(
        "letter {id} of this position was closed; it is open again"
    ));

    discard(&test, id);
    test.run(format!("dlq capture --file {file}"))
        .prints("0 failures captured, 1 letter reopened, 0 already known\n");
    discard(&test, id);
    let counts = json!({ "new": 0, "reopened": 1, "known": 0, "bad_lines": 0 });
    test.run(format!("dlq capture --file {file} --json"))
        .holds(&counts);
}

#[test]
fn the_screen_counts_captured_failures_by_source() {
    let (test, db) = TestDatabase::opened();
    test.run("dlq").hides("Captured failures");
    let capture = |source: &str, count: i64| {
        let failure =
            |n: i64| ForeignFailure::new(source, n.to_string(), "orders", "order", *b"{}");
        let failures: Vec<ForeignFailure> = (0..count).map(failure).collect();
        db.dlq().capture_many(&failures).unwrap();
    };
    capture("kafka:old", 40);
    test.sql("UPDATE redrive.dead_letters SET died_at = died_at - interval '2 hours'");
    capture("web hooks", 30);
    for source in ["a", "b", "c", "d"] {
        capture(source, 1);
    }
    test.run("dlq")
        .shows("Captured failures by source")
        .shows("  web hooks: 30 open, 30 captured in the last hour, last ")
        .shows("redrive dlq list 'source=\"web hooks\"'")
        .shows("  and 1 more:  redrive dlq list cause=captured --by source\n")
        .hides("kafka:old");
    test.run("dlq list cause=captured --by source")
        .shows("kafka:old");
}
