//! Captures from SQL: one failure or many in one call.

use postgres::Client;
use postgres::error::SqlState;
use redrive::Operator;
use redrive::dlq::{GroupFilter, GroupState, LetterFilter};
use redrive_tests::TestDatabase;
use serde_json::{Value, json};

const MANY: &str = "SELECT id, is_new, is_reopened FROM redrive.capture_many($1) ORDER BY place";

/// Captures failures and returns whether each is new.
fn capture_many(client: &mut Client, failures: &Value) -> Vec<bool> {
    let rows = client.query(MANY, &[failures]).unwrap();
    rows.iter().map(|row| row.get("is_new")).collect()
}

#[test]
fn many_failures_are_captured_in_one_call() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let failures = json!([
        {"source": "kafka", "position": "1", "queue": "orders", "kind": "order", "payload": {"n": 1},
         "headers": {"trace": "abc"}, "error_class": "Timeout", "error_message": "no answer",
         "error_detail": "at byte 0", "group_key": "customer-7", "failure_key": "slow"},
        {"source": "kafka", "position": "2", "queue": "orders", "kind": "order", "raw": "{\"b\":1.00,\"a\":1,\"a\":2}"},
        {"source": "kafka", "position": "3", "queue": "orders", "kind": "order", "raw_base64": "/3s=",
         "content_type": "application/octet-stream"},
        {"source": "kafka", "position": "4", "queue": "orders", "kind": "order", "payload": null},
        {"source": "kafka", "position": "1", "queue": "orders", "kind": "order", "raw": "again"},
    ]);
    assert_eq!(
        capture_many(&mut client, &failures),
        [true, true, true, true, false]
    );
    assert_eq!(capture_many(&mut client, &failures), [false; 5]);
    assert!(capture_many(&mut client, &json!([])).is_empty());
    let db = test.open();
    let mut letters = db.dlq().list(&LetterFilter::new()).unwrap();
    letters.sort_by_key(|letter| letter.position.clone());
    let [first, second, third, fourth] = &letters[..] else {
        panic!("{} letters", letters.len());
    };
    let payload =
        |letter: &redrive::dlq::Letter| letter.payload.as_ref().map(|json| json.get().to_owned());
    assert_eq!(payload(first).as_deref(), Some(r#"{"n": 1}"#));
    assert_eq!(
        (&*first.error_class, &*first.error_message),
        ("Timeout", "no answer")
    );
    assert_eq!(first.error_detail.as_deref(), Some("at byte 0"));
    assert_eq!(first.group_key.as_deref(), Some("customer-7"));
    assert_eq!(first.failure_key.as_deref(), Some("slow"));
    assert_eq!(
        first.headers.as_ref().map(|json| json.get()),
        Some(r#"{"trace": "abc"}"#)
    );
    assert_eq!(first.seen, 4);
    let raw = br#"{"b":1.00,"a":1,"a":2}"#;
    assert_eq!(second.raw.as_deref(), Some(&raw[..]));
    assert_eq!(
        (third.raw.as_deref(), payload(third)),
        (Some(&b"\xff{"[..]), None)
    );
    assert_eq!(
        third.content_type.as_deref(),
        Some("application/octet-stream")
    );
    assert_eq!(payload(fourth).as_deref(), Some("null"));
    // The key decides the group, and a group of captures counts like any other.
    let groups = db.dlq().groups().list(&GroupFilter::new()).unwrap();
    let slow = groups
        .iter()
        .find(|group| group.title == "slow")
        .expect("the group");
    assert_eq!((slow.deaths, slow.open), (1, 1));
}

#[test]
fn a_bad_failure_is_named_and_nothing_is_captured() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let good = json!({"source": "s", "position": "1", "queue": "q", "kind": "k", "payload": 1});
    let changed = |key: &str, value: Value| {
        let mut bad = good.clone();
        bad[key] = value;
        bad
    };
    for (bad, complaint) in [
        (json!(7), "is not an object"),
        (
            changed("headrs", json!({})),
            "has the unknown member headrs",
        ),
        (
            changed("queue", Value::Null),
            "needs a source, a position, a queue and a kind",
        ),
        (
            changed("raw", json!("x")),
            "needs exactly one of payload, raw and raw_base64",
        ),
    ] {
        let error = client.query(MANY, &[&json!([good, bad])]).unwrap_err();
        assert_eq!(
            error.code(),
            Some(&SqlState::INVALID_PARAMETER_VALUE),
            "{error}"
        );
        let message = error.as_db_error().expect("the server's").message();
        let expected = format!("redrive: failure 2 {complaint}; nothing was captured");
        assert_eq!(message, expected);
    }
    let error = client.query(MANY, &[&json!({})]).unwrap_err();
    assert!(
        error
            .as_db_error()
            .expect("the server's")
            .message()
            .contains("JSON array")
    );
    assert!(
        test.open()
            .dlq()
            .list(&LetterFilter::new())
            .unwrap()
            .is_empty()
    );
}

#[test]
fn one_failure_is_captured_with_headers_and_a_key() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let id: i64 = client
        .query_one(
            "SELECT id FROM redrive.capture('kafka', '1', 'orders', 'order', '\\x7b7d', \
             headers => '{\"trace\": \"abc\"}', error_message => 'no answer', failure_key => 'slow')",
            &[],
        )
        .unwrap()
        .get(0);
    let letter = test
        .open()
        .dlq()
        .get(redrive::JobId::new(id))
        .unwrap()
        .expect("the letter");
    assert_eq!(letter.failure_key.as_deref(), Some("slow"));
    assert_eq!(
        letter.headers.map(|json| json.get().to_owned()).as_deref(),
        Some(r#"{"trace": "abc"}"#)
    );
}

#[test]
fn a_flood_of_captures_is_one_group_with_exact_numbers() {
    let test = TestDatabase::migrated();
    let (db, mut client) = (test.open(), test.client());
    let flood = |from: i64| -> Value {
        let failure = |n: i64| {
            json!({
                "source": format!("kafka:{}", n % 2), "position": n.to_string(), "queue": "orders",
                "kind": "order", "payload": {"n": n}, "error_class": "Timeout",
                "error_message": format!("no answer for order {n} in {} ms", n * 7),
            })
        };
        (from..from + 1000).map(failure).collect()
    };
    assert!(
        capture_many(&mut client, &flood(0))
            .iter()
            .all(|is_new| *is_new)
    );
    let groups = || db.dlq().groups().list(&GroupFilter::new()).unwrap();
    let [group] = &groups()[..] else {
        panic!("{} groups", groups().len());
    };
    assert_eq!((group.deaths, group.open), (1000, 1000));
    // A capture at the end of an hour counts in the hour before.
    assert_eq!(group.hours.iter().sum::<u64>(), 1000);
    let newest = db.dlq().list(&LetterFilter::new().limit(1)).unwrap();
    assert_eq!(group.last_seen, newest[0].died_at);
    assert!(group.first_seen <= group.last_seen);
    // A known position is no other failure; a new one is a regression of a resolved group.
    let operator = Operator::default();
    assert!(!capture_many(&mut client, &flood(0))[0]);
    db.dlq()
        .groups()
        .set_state(group.id, GroupState::Resolved, &operator)
        .unwrap();
    assert_eq!(groups()[0].deaths, 1000);
    assert_eq!(groups()[0].state, GroupState::Resolved);
    capture_many(&mut client, &flood(1000));
    let again = &groups()[0];
    assert_eq!((again.deaths, again.regressions), (2000, 1));
    assert!(again.is_regression());
}
