//! The commands on retention and the archive.

use std::time::Duration;

use redrive::Operator;
use redrive::dlq::{ForeignFailure, LetterFilter, LetterState, RetentionRule};
use redrive_tests::{TestDatabase, letters};
use serde_json::Value;

use super::{left, make};

/// Runs a command and returns its output.
#[track_caller]
fn printed(test: &TestDatabase, code: u8, arguments: &[&str]) -> String {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let program = ["redrive", "--database-url", test.url(), "--no-wait"];
    let arguments = program
        .iter()
        .chain(arguments)
        .map(std::ffi::OsString::from);
    let ended = redrive_cli::run(arguments, &mut out, &mut err);
    let err = String::from_utf8(err).unwrap();
    assert_eq!(ended, std::process::ExitCode::from(code), "{err}");
    String::from_utf8(out).unwrap()
}

#[test]
fn rules_can_be_set_shown_and_applied_on_the_command_line() {
    let test = TestDatabase::migrated();
    let (db, mut client) = (test.open(), test.client());
    make(&mut client, "orders", LetterState::Recovered, 40, 3);
    make(&mut client, "orders", LetterState::Open, 40, 2);
    printed(&test, 1, &["dlq", "retention", "list"]);
    printed(&test, 0, &["prune", "--dry-run"]);
    printed(&test, 0, &["dlq", "retention", "set", "recovered", "30d"]);
    printed(&test, 2, &["dlq", "retention", "set", "open", "30d"]);
    printed(&test, 2, &["dlq", "retention", "set", "redriving", "30d"]);
    let archive = [
        "dlq",
        "retention",
        "set",
        "open",
        "30d",
        "archive",
        "--queue",
        "orders",
    ];
    printed(&test, 0, &archive);
    let list = printed(&test, 0, &["dlq", "retention", "list"]);
    assert_eq!(list.lines().count(), 3, "{list}");
    let dry = printed(&test, 0, &["prune", "--dry-run"]);
    assert!(
        dry.contains("5 letters would be deleted or archived") && dry.contains("archive"),
        "{dry}"
    );
    assert_eq!(left(&mut client).len(), 2, "nothing has changed");
    let dry = printed(&test, 0, &["prune"]);
    assert!(dry.contains("redrive prune --yes"), "{dry}");
    assert_eq!(left(&mut client).len(), 2, "nothing has changed");
    assert!(printed(&test, 0, &["prune", "--yes"]).contains("5 letters"));
    assert!(left(&mut client).is_empty());
    assert_eq!(db.dlq().archived(&LetterFilter::new()).unwrap().len(), 2);
    printed(
        &test,
        0,
        &["dlq", "retention", "remove", "open", "--queue", "orders"],
    );
    printed(
        &test,
        1,
        &["dlq", "retention", "remove", "open", "--queue", "orders"],
    );
}

#[test]
fn the_archive_is_exported_as_lines_that_capture_imports() {
    let test = TestDatabase::migrated();
    let (queue, db) = (test.queue("orders"), test.open());
    printed(&test, 1, &["dlq", "archive", "list"]);
    let own = letters(&queue, 1)[0];
    let foreign = ForeignFailure::new("kafka", "3/17", "orders", "order", b"\xff{".as_slice())
        .header("trace", "abc")
        .error("ParseError", "no JSON")
        .detail("at byte 0");
    db.dlq().capture(&foreign).unwrap();
    db.dlq()
        .capture(&ForeignFailure::new(
            "kafka",
            "3/18",
            "mails",
            "mail",
            b"null".as_slice(),
        ))
        .unwrap();
    let rule = RetentionRule::archive(LetterState::Open, Duration::ZERO);
    db.dlq()
        .retention()
        .set(&rule, &Operator::default())
        .unwrap();
    db.dlq().retention().apply(&Operator::default()).unwrap();
    let listed = printed(&test, 0, &["dlq", "archive", "list"]);
    assert!(listed.contains("ParseError: no JSON"), "{listed}");
    let lines: Vec<Value> = printed(&test, 0, &["dlq", "archive", "export", "orders"])
        .lines()
        .map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            let past = line["letter"].take();
            line.as_object_mut().expect("an object").remove("letter");
            assert_eq!(past["state"], "open");
            line
        })
        .collect();
    assert_eq!(
        lines,
        [
            serde_json::json!({
                "source": "redrive:letter", "position": own.to_string(), "queue": "orders", "kind": "order",
                "payload": {"number": 1}, "error_class": "Rejected", "error_message": "broken",
            }),
            serde_json::json!({
                "source": "kafka", "position": "3/17", "queue": "orders", "kind": "order",
                "raw_base64": "/3s=", "content_type": "application/json", "headers": {"trace": "abc"},
                "error_class": "ParseError", "error_message": "no JSON", "error_detail": "at byte 0",
            }),
        ]
    );
}
