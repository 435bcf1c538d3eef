//! The commands on retention and the archive.

use std::time::Duration;

use redrive::Operator;
use redrive::dlq::{ForeignFailure, LetterState, RetentionRule};
use redrive_tests::{TestDatabase, letters};
use serde_json::Value;

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
