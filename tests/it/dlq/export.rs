//! Export: letters as lines that capture and enqueue read back, byte for byte.

use redrive_tests::prelude::*;

/// All letters, by source and position.
fn by_position(test: &TestDatabase) -> Vec<Letter> {
    let mut all = test.open().listed(&LetterFilter::new().limit(10_000));
    all.sort_by_key(|letter| (letter.source.clone(), letter.position.clone()));
    all
}

#[test]
fn odd_bytes_survive_an_export_and_import() {
    let (test, db) = TestDatabase::opened();
    let all: Vec<u8> = (0..=255).collect();
    let deep = [vec![b'['; 300], vec![b']'; 300]].concat();
    let text = "größe \u{202e}\u{1f600}\u{2028}\r\n\t\\\"";
    let events: [(&str, &[u8]); 11] = [
        ("malformed", br#"{"number": 1, "#),
        ("nul", b"{\"a\": \"\0\"}"),
        ("escaped nul", br#"{"a": "\u0000"}"#),
        ("surrogate", br#""\ud800""#),
        ("not utf-8", b"\xff\xfe"),
        ("all", &all),
        ("nothing", b""),
        ("spaces", b" {\"b\":1,\n \"a\" : 2} \r\n"),
        ("null", b"null"),
        ("deep", &deep),
        ("text", text.as_bytes()),
    ];
    for (position, raw) in events {
        let event = ForeignFailure::new("kafka:\"o\"\n", position, "orders", "order.placed", raw);
        let event = event.content_type("application/x-odd; a=\"b\"");
        let event = event.header("trace", "a\nb").header("empty", "");
        let event = event.error("Parse\"Error", format!("cannot read\n{position}"));
        db.captures(&event.detail("at byte 7\n\tat main"));
    }
    let exported = test.run("dlq export orders");
    assert_eq!(exported.out.lines().count(), events.len());
    exported.tells("11 letters exported");

    let other = TestDatabase::migrated();
    let file = TempFile::of(&exported.out);
    other
        .run(format!("dlq capture --file {file} --rate 1000"))
        .prints("11 failures captured, 0 already known\n");
    let (before, after) = (by_position(&test), by_position(&other));
    assert_eq!((before.len(), after.len()), (11, 11));
    for (before, after) in before.iter().zip(&after) {
        let headers = |letter: &Letter| letter.headers.as_ref().map(|json| json.get().to_owned());
        assert!(before.raw == after.raw, "{:?}", before.position);
        assert_eq!(content(before), content(after));
        assert_eq!(headers(before), headers(after));
        assert_eq!(before.position, after.position);
        assert_eq!(before.error_detail, after.error_detail);
    }
    // Exporting them produces the same failures.
    let second = other.run("dlq export orders");
    let failures = |ran: &Ran| -> Vec<Value> {
        let mut failures = ran.lines();
        for failure in &mut failures {
            failure["letter"].take();
        }
        failures
    };
    assert_eq!(failures(&second), failures(&exported));
}

#[test]
fn letters_without_a_whole_payload_are_reported_when_exported_as_jobs() {
    let (test, queue, ids) = TestDatabase::with_letters(120);
    let redacted = ids[7];
    let redact = "UPDATE redrive.dead_letters SET redacted = '{/number}' WHERE id = $1";
    test.client().change(redact, &[&redacted.get()]);
    let event = ForeignFailure::new("kafka", "1", "orders", "order", &b"\xff"[..]);
    let odd = queue.captures_new(&event);
    let exported = test.fails(1, "dlq export orders --as-jobs");
    exported.tells(format!(
        "letter {odd} was not exported: the captured bytes are not JSON"
    ));
    exported.tells(format!(
        "letter {redacted} was not exported: the payload was redacted"
    ));
    exported.tells("119 jobs exported");
    let other = TestDatabase::migrated();
    let file = TempFile::of(&exported.out);
    other.run(format!("enqueue again order --file {file}"));
    assert_eq!(stats(&other.open(), "again").expect("jobs").ready, 119);

    // Many have a line for each cause only.
    let redact = "UPDATE redrive.dead_letters SET redacted = '{/number}' WHERE id <> $1";
    test.client().change(redact, &[&odd.get()]);
    let exported = test.fails(1, "dlq export orders --as-jobs");
    exported.tells("120 letters were not exported: the payload was redacted");
    exported.tells("0 jobs exported");
}
