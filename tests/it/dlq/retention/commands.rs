//! The commands on retention and the archive.

use std::time::Duration;

use redrive::dlq::{ForeignFailure, LetterState, RetentionRule};
use redrive_tests::{Dead, TestDatabase, letters};

#[test]
fn the_archive_is_exported_as_lines_that_capture_imports() {
    let test = TestDatabase::migrated();
    let (queue, db) = (test.queue("orders"), test.open());
    test.fails(1, "dlq archive list");
    let own = letters(&queue, 1)[0];
    let foreign = ForeignFailure::new("kafka", "3/17", "orders", "order", b"\xff{".as_slice())
        .header("trace", "abc")
        .error("ParseError", "no JSON")
        .detail("at byte 0");
    db.captures(&foreign);
    let other = ForeignFailure::new("kafka", "3/18", "mails", "mail", b"null".as_slice());
    db.captures(&other);
    let rule = RetentionRule::archive(LetterState::Open, Duration::ZERO);
    db.retains(&rule);
    db.tidies_up();
    test.run("dlq archive list").shows("ParseError: no JSON");
    let mut lines = test.run("dlq archive export orders").lines();
    for line in &mut lines {
        let past = line.as_object_mut().expect("an object").remove("letter");
        assert_eq!(past.expect("its past")["state"], "open");
    }
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
