//! Validation lists letters by their result, and a redrive sends only those that pass.

use std::path::PathBuf;

use redrive::dlq::LetterState;
use redrive_tests::{TestDatabase, letters_in};
use serde_json::json;

use super::super::{letters, ready, redrive};

/// A JSON Schema that accepts the first two orders, removed at the end of the test.
struct Schema(PathBuf);

impl Schema {
    fn new(db: &TestDatabase) -> Schema {
        let file = std::env::temp_dir().join(format!("{}.schema.json", db.name()));
        let schema = json!({"properties": {"order": {"maximum": 2}}});
        std::fs::write(&file, schema.to_string()).expect("write a file for the test");
        Schema(file)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path in UTF-8")
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn validate_lists_the_ids_that_fail_or_pass() {
    let db = TestDatabase::migrated();
    let mut ids = letters(&db, &db.queue("orders"), 5);
    ids.reverse();
    let schema = Schema::new(&db);
    let validate = |options: &[&str], code: u8| {
        let all = ["dlq", "validate", "orders", "--schema", schema.path()];
        redrive(&db, &[&all, options].concat()).exits_with(code)
    };
    let passing = validate(&["--passing"], 0);
    assert_eq!(passing.out, format!("{}\n{}\n", ids[0], ids[1]));
    assert!(
        passing.err.contains("2 would pass, 3 fail"),
        "{}",
        passing.err
    );
    let failing = validate(&["--failing", "--json"], 0);
    let lines = failing.lines();
    assert_eq!(lines.len(), 3);
    assert_eq!(
        (&lines[0]["id"], &lines[0]["passes"]),
        (&ids[2].get().into(), &false.into())
    );
    let error = lines[0]["error"].as_str().expect("an error");
    assert!(error.starts_with("/order: "), "{error}");
    validate(&["payload.order>2", "--passing"], 1);
    validate(&["--passing", "--failing"], 2);

    // The ids can be given to a redrive.
    let passing: Vec<&str> = passing.out.lines().collect();
    redrive(&db, &[&["dlq", "redrive", "--id"], &passing[..]].concat()).exits_with(0);
    assert_eq!(letters_in(&db.open(), "orders", LetterState::Redriving), 2);
}

#[test]
fn a_redrive_with_validation_sends_only_the_letters_that_pass() {
    let db = TestDatabase::migrated();
    let queue = db.queue("orders");
    letters(&db, &queue, 5);
    let schema = Schema::new(&db);
    let valid = [
        "dlq",
        "redrive",
        "orders",
        "--validate",
        "--schema",
        schema.path(),
    ];
    let dry = redrive(&db, &valid).exits_with(0);
    for part in [
        "5 open letters match; 2 would be redriven.",
        "3 letters left out: failed validation; `redrive dlq edit` repairs them",
        "/order: ",
        &format!("--validate --schema {} --yes", schema.path()),
    ] {
        assert!(dry.out.contains(part), "{part}: {}", dry.out);
    }
    let dry = redrive(&db, &[&valid[..], &["--json"]].concat()).exits_with(0);
    let line = &dry.lines()[0];
    assert_eq!(
        (
            &line["letters"],
            &line["skipped"][0]["reason"],
            &line["errors"][0]["letters"]
        ),
        (&2.into(), &"invalid".into(), &3.into())
    );

    let sent = redrive(&db, &[&valid[..], &["--unthrottled", "--yes"]].concat()).exits_with(0);
    assert!(
        sent.err.contains("3 letters left out: failed validation"),
        "{}",
        sent.err
    );
    assert!(sent.out.contains("run 1: 2 sent"), "{}", sent.out);
    assert_eq!(ready(&queue), 2);
    assert_eq!(letters_in(&db.open(), "orders", LetterState::Open), 3);
    // The filter of the run has no ids.
    let run = redrive(&db, &["dlq", "runs", "list", "--json"]).exits_with(0);
    assert_eq!(run.lines()[0]["filter"], json!({"queue": "orders"}));

    let none = redrive(&db, &[&valid[..], &["--yes"]].concat()).exits_with(1);
    assert!(
        none.err.contains("no letter passes validation"),
        "{}",
        none.err
    );
    assert_eq!(ready(&queue), 2);
    for wrong in [
        &["dlq", "redrive", "orders", "--validate"][..],
        &["dlq", "redrive", "orders", "--schema", schema.path()],
    ] {
        redrive(&db, wrong).exits_with(2);
    }
}

#[test]
fn letters_given_by_id_are_validated_before_they_are_redriven() {
    let db = TestDatabase::migrated();
    let queue = db.queue("orders");
    let ids: Vec<String> = letters(&db, &queue, 3)
        .iter()
        .rev()
        .map(ToString::to_string)
        .collect();
    let sent = redrive(
        &db,
        &[
            "dlq",
            "redrive",
            "--id",
            &ids[0],
            &ids[2],
            "--validate",
            "--exec",
            "grep -v 3",
        ],
    )
    .exits_with(1);
    assert!(sent.out.contains("1 letter redriven"), "{}", sent.out);
    assert!(
        sent.err.contains("1 letter left out: failed validation"),
        "{}",
        sent.err
    );
    assert_eq!(ready(&queue), 1);
}
