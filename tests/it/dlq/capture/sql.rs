//! Captures from SQL: one failure or many in one call.

use redrive_tests::prelude::*;

/// Captures failures and returns whether each is new.
fn capture_letters(client: &mut Client, failures: &Value, raws: &[&[u8]]) -> Vec<bool> {
    let many = "SELECT is_new FROM redrive.capture_letters(ARRAY(SELECT jsonb_array_elements($1)), $2) ORDER BY place";
    client.column(many, &[failures, &raws])
}

#[test]
fn many_failures_are_captured_in_one_call() {
    let (test, mut client) = TestDatabase::with_client();
    let failures = json!([
        {"source": "kafka", "position": "1", "queue": "orders", "kind": "order",
         "headers": {"trace": "abc"}, "error_class": "Timeout", "error_message": "no answer",
         "error_detail": "at byte 0", "group_key": "customer-7", "failure_key": "slow"},
        {"source": "kafka", "position": "2", "queue": "orders", "kind": "order"},
        {"source": "kafka", "position": "3", "queue": "orders", "kind": "order",
         "content_type": "application/octet-stream"},
        {"source": "kafka", "position": "4", "queue": "orders", "kind": "order"},
        {"source": "kafka", "position": "1", "queue": "orders", "kind": "order"},
    ]);
    let raw = br#"{"b":1.00,"a":1,"a":2}"#;
    let raws: [&[u8]; 5] = [br#"{"n": 1}"#, raw, b"\xff{", b"null", b"again"];
    let are_new = capture_letters(&mut client, &failures, &raws);
    assert_eq!(are_new, [true, true, true, true, false]);
    assert_eq!(capture_letters(&mut client, &failures, &raws), [false; 5]);
    assert!(capture_letters(&mut client, &json!([]), &[]).is_empty());
    let db = test.open();
    let mut letters = db.listed(&LetterFilter::new());
    letters.sort_by_key(|letter| letter.position.clone());
    let [first, second, third, fourth] = &letters[..] else {
        panic!("{} letters", letters.len());
    };
    assert_eq!(content(first), Some(r#"{"n": 1}"#));
    assert_eq!(&*first.error_class, "Timeout");
    assert_eq!(&*first.error_message, "no answer");
    assert_eq!(first.error_detail.as_deref(), Some("at byte 0"));
    assert_eq!(first.group_key.as_deref(), Some("customer-7"));
    assert_eq!(first.failure_key.as_deref(), Some("slow"));
    let headers = first.headers.as_ref().map(|json| json.get());
    assert_eq!(headers, Some(r#"{"trace": "abc"}"#));
    assert_eq!(first.seen, 4);
    assert_eq!(second.raw.as_deref(), Some(&raw[..]));
    assert_eq!(third.raw.as_deref(), Some(&b"\xff{"[..]));
    assert_eq!(content(third), None);
    let content_type = third.content_type.as_deref();
    assert_eq!(content_type, Some("application/octet-stream"));
    assert_eq!(content(fourth), Some("null"));
}
