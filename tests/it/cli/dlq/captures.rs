//! Captured failures: `redrive dlq capture` of closed ones.

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
