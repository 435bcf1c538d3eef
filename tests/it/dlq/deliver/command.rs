//! Delivery to a command, from the command line.

use redrive::Operator;
use redrive::dlq::{CaptureOutcome, Edit, ForeignFailure, LetterFilter, LetterState};
use redrive_tests::{TestDatabase, letters, letters_in, ran};
use serde_json::json;

#[test]
fn a_delivery_command_receives_the_original_bytes() {
    let (test, db) = TestDatabase::opened();
    let bytes: Vec<u8> = (0..=255).collect();
    let event = ForeignFailure::new(
        "kafka:orders",
        "3/1842",
        "orders",
        "order.placed",
        &bytes[..],
    )
    .header("trace", "abc")
    .error("ParseError", "no text");
    let CaptureOutcome::New(id) = db.dlq().capture(&event).unwrap() else {
        panic!("not new")
    };
    let file = std::env::temp_dir().join(format!("{}.bytes", test.name()));
    let path = file.to_str().expect("a path in UTF-8");
    let command = format!(
        "test \"$REDRIVE_SOURCE $REDRIVE_POSITION $REDRIVE_KIND $REDRIVE_ERROR_CLASS\" = \
         'kafka:orders 3/1842 order.placed ParseError' && echo \"$REDRIVE_HEADERS\" | grep -q abc && cat > {path}"
    );
    let id_text = id.to_string();
    ran(
        &test,
        &["dlq", "deliver", "--id", &id_text, "--exec", &command],
    )
    .exits_with(0);
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    let letter = db.dlq().get(id).unwrap().unwrap();
    assert_eq!(
        (letter.state, letter.raw),
        (LetterState::Recovered, Some(bytes))
    );

    // After an edit the payload is sent, on one line.
    let event = ForeignFailure::new(
        "kafka:orders",
        "3/1843",
        "orders",
        "order.placed",
        &b"{"[..],
    );
    let CaptureOutcome::New(id) = db.dlq().capture(&event).unwrap() else {
        panic!("not new")
    };
    let set = Edit::set(r#"{"a": 1}"#).unwrap();
    db.dlq()
        .edit(&LetterFilter::new().ids([id]), &set, &Operator::default())
        .unwrap();
    let command = format!("cat > {path}");
    ran(
        &test,
        &[
            "dlq",
            "deliver",
            "--id",
            &id.to_string(),
            "--exec",
            &command,
        ],
    )
    .exits_with(0);
    assert_eq!(std::fs::read(&file).unwrap(), b"{\"a\": 1}\n");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn delivering_a_queue_needs_yes_and_reports_failures() {
    let (test, queue) = TestDatabase::with_orders();
    let ids = letters(&queue, 3);
    let command = "grep -q '\"number\":[12]}' || { echo 'too many' >&2; exit 7; }";
    let deliver = ["dlq", "deliver", "orders", "--exec", command];
    let dry = ran(&test, &deliver).exits_with(0);
    assert!(
        dry.out.contains("3 open letters would be delivered") && dry.out.contains("--yes"),
        "{}",
        dry.out
    );
    assert_eq!(letters_in(queue.database(), "orders", LetterState::Open), 3);
    let result = ran(&test, &[&deliver[..], &["--yes"]].concat()).exits_with(1);
    assert_eq!(result.out, "2 letters delivered\n");
    assert!(
        result.err.contains(&format!(
            "letter {} was not delivered: exit:7: too many",
            ids[2]
        )),
        "{}",
        result.err
    );
    let lines = ran(&test, &[&deliver[..], &["--yes", "--json"]].concat())
        .exits_with(1)
        .lines();
    assert_eq!(
        lines,
        [
            json!({ "id": ids[2].get(), "outcome": "failed", "error_class": "exit:7", "error_message": "too many" }),
            json!({ "action": "deliver", "letters": 0, "failed": 1, "skipped": [] })
        ]
    );
    let slow = [
        "dlq",
        "deliver",
        "orders",
        "--exec",
        "sleep 300",
        "--deadline",
        "200ms",
        "--yes",
    ];
    let result = ran(&test, &slow).exits_with(1);
    assert!(
        result
            .err
            .contains("timeout: the command exceeded its deadline"),
        "{}",
        result.err
    );
    ran(
        &test,
        &["dlq", "deliver", "orders", "--sink", "nowhere", "--yes"],
    )
    .exits_with(2);
    ran(&test, &["dlq", "deliver", "orders"]).exits_with(2);
    ran(
        &test,
        &["dlq", "deliver", "empty", "--exec", "true", "--yes"],
    )
    .exits_with(1);
}
