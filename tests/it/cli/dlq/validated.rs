//! Validation lists letters by their result, and a redrive sends only those that pass.

use redrive_tests::prelude::*;

use super::super::{ready, with_letters};
use crate::worker_process::program;

/// A JSON Schema that accepts the first two orders.
fn schema() -> TempFile {
    TempFile::of(json!({"properties": {"order": {"maximum": 2}}}).to_string())
}

#[test]
fn validate_lists_the_ids_that_fail() {
    let (db, _, mut ids) = with_letters(5);
    ids.reverse();
    let schema = schema();
    let validate = format!("dlq validate orders --schema {schema}");
    db.run(format!("{validate} --failing"))
        .prints(format!("{}\n{}\n{}\n", ids[2], ids[3], ids[4]))
        .tells("2 would pass, 3 fail");
    let lines = db.run(format!("{validate} --failing --json")).lines();
    assert_eq!(lines.len(), 3);
    holds(&lines[0], &json!({"id": ids[2].get()}));
    let error = lines[0]["error"].as_str().expect("an error");
    assert!(error.starts_with("/order: "), "{error}");
    let counts = db.fails(1, format!("{validate} --json")).json();
    holds(&counts, &json!({"passed": 2, "failed": 3}));
    let failing: Vec<i64> = ids[2..].iter().map(|id| id.get()).collect();
    assert_eq!(counts["errors"][0]["ids"], json!(failing));
    db.fails(1, format!("{validate} payload.order<=2 --failing"));
    let wrong = TempFile::of(r#"{"type": "nothing"}"#);
    db.fails(2, format!("dlq validate orders --schema {wrong}"))
        .tells("not a JSON Schema");
    let id = ids[0];
    db.fails(1, format!("dlq validate {id} 999 --exec true"))
        .tells("letter 999 was not checked: it does not exist");

    // The schema can come from stdin.
    let mut from_stdin = program(db.url());
    from_stdin.args(["dlq", "validate", "orders", "--schema", "-"]);
    let file = fs::File::open(schema.to_string()).expect("the schema");
    let output = from_stdin.stdin(file).output().expect("the command");
    let out = String::from_utf8_lossy(&output.stdout);
    has(out, "2 would pass, 3 fail");
}

#[test]
fn a_redrive_with_validation_sends_only_the_letters_that_pass() {
    let (db, queue, _) = with_letters(5);
    let schema = schema();
    let valid = format!("dlq redrive orders --validate --schema {schema}");
    db.run(&valid)
        .shows("5 open letters match; 2 would be redriven.")
        .shows("3 letters left out: failed validation; `redrive dlq edit` repairs them")
        .shows("/order: ");
    let line = db.run(format!("{valid} --json")).json();
    assert_eq!(line["letters"], 2);
    assert_eq!(line["skipped"][0]["reason"], "invalid");
    assert_eq!(line["errors"][0]["letters"], 3);

    db.fails(1, format!("{valid} --unthrottled --yes"))
        .tells("3 letters left out: failed validation")
        .shows("run 1: 2 sent");
    assert_eq!(ready(&queue), 2);
    assert_eq!(letters_in(&db.open(), "orders", LetterState::Open), 3);
    // The filter of the run has no ids.
    db.run("dlq runs list --json")
        .holds(&json!({"filter": {"queue": "orders"}}));

    db.fails(1, format!("{valid} --yes"))
        .tells("no letter passes validation");
    assert_eq!(ready(&queue), 2);
}

#[test]
fn letters_given_by_id_are_validated_before_they_are_redriven() {
    let (db, queue, ids) = with_letters(3);
    let these = format!("dlq redrive {} {}", ids[2], ids[0]);
    db.fails(1, format!("{these} --validate --exec 'grep -v 3'"))
        .shows("1 letter redriven")
        .shows("1 letter left out: failed validation");
    assert_eq!(ready(&queue), 1);
    let gone = format!("dlq redrive 999 {}", ids[0]);
    let rest = db.fails(1, format!("{gone} --validate --exec 'grep -v 3' --json"));
    rest.tells("letter 999 was not redriven: it does not exist");
    let reasons = rest.json()["skipped"].as_array().map(Vec::len);
    assert_eq!(reasons, Some(2), "invalid and gone: {}", rest.out);
    // Only letters that can be redriven are validated.
    db.run(format!("dlq discard {} --reason tests", ids[0]));
    let redrive = format!("dlq redrive {} --validate --exec 'grep -v 3'", ids[0]);
    db.fails(1, redrive)
        .tells("was not redriven: it is discarded");
}
