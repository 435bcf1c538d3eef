//! `redrive dlq capture` of failures whose letters were closed.

use redrive::JobId;
use redrive::dlq::ForeignFailure;
use redrive_tests::TestDatabase;

use super::super::redrive;

fn discard(db: &TestDatabase, id: JobId) {
    let id = id.to_string();
    redrive(db, &["dlq", "discard", "--id", &id, "--reason", "refunded"]).exits_with(0);
}

#[test]
fn the_command_says_that_a_letter_was_reopened() {
    let test = TestDatabase::migrated();
    let db = test.open();
    let failure = ForeignFailure::new("kafka:orders", "1", "orders", "order", *b"{}")
        .error("Timeout", "no answer");
    let id = db.dlq().capture(&failure).unwrap().id();
    let path = std::env::temp_dir().join(format!("{}.again.ndjson", test.name()));
    let line = r#"{"source":"kafka:orders","position":"1","queue":"orders","kind":"order","payload":{"number":1},"error_class":"SchemaMismatch","error_message":"missing field"}"#;
    std::fs::write(&path, line).unwrap();
    let file = path.to_str().expect("a path in UTF-8");

    discard(&test, id);
    let one = [
        "dlq",
        "capture",
        "kafka:orders",
        "1",
        "orders",
        "order",
        file,
        "--error-class",
        "Other",
    ];
    let output = redrive(&test, &one).exits_with(0);
    assert_eq!(output.out, format!("{id}\n"));
    let said = format!("letter {id} of this position was closed; it is open again");
    assert!(output.err.contains(&said), "{}", output.err);

    discard(&test, id);
    let output = redrive(&test, &["dlq", "capture", "--file", file]).exits_with(0);
    assert_eq!(
        output.out,
        "0 failures captured, 1 letter reopened, 0 already known\n"
    );
    discard(&test, id);
    let output = redrive(&test, &["dlq", "capture", "--file", file, "--json"]).exits_with(0);
    assert_eq!(
        output.lines(),
        [serde_json::json!({ "new": 0, "reopened": 1, "known": 0, "bad_lines": 0 })]
    );
    std::fs::remove_file(&path).unwrap();

    let shown = redrive(&test, &["dlq", "show", &id.to_string()])
        .exits_with(0)
        .out;
    for line in [
        "captured: Timeout: no answer",
        "captured of generation 3: SchemaMismatch: missing field",
        "discarded",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
}
