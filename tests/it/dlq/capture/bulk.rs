//! Captures of many failures: in bulk, from a file and by a stream consumer.

use redrive_tests::prelude::*;

use super::captured;

#[test]
fn a_bulk_capture_equals_single_captures() {
    let (test, db) = TestDatabase::opened();
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    let odd: [&[u8]; 8] = [
        b"{\"number\": 1}",
        br#"{"number": 1, "#,
        b"{\"a\": \"\0\"}",
        br#"{"a": "\u0000"}"#,
        br#""\ud800""#,
        b"\xff\xfe",
        b"1e999999",
        &deep,
    ];
    let event =
        |n: usize| captured(&n.to_string(), odd[n % odd.len()]).error("E", format!("at {n}"));
    let events: Vec<ForeignFailure> = (0..2300).map(event).collect();
    let answers = db.dlq().capture_many(&events).unwrap();
    assert_eq!(answers.len(), 2300);
    let one_by_one = test.open();
    let mut alone_ids = Vec::new();
    for (n, raw) in odd.iter().enumerate() {
        let CaptureOutcome::New(id) = answers[n + 2000] else {
            panic!("{n}: {:?}", answers[n + 2000])
        };
        let letter = db.letter(id);
        assert!(letter.raw.as_deref() == Some(*raw), "{n}: other bytes");
        let alone = captured(&format!("alone {n}"), raw);
        let alone = db.letter(one_by_one.captures_new(&alone));
        alone_ids.push(alone.id);
        assert_eq!(content(&letter), content(&alone), "{n}");
        // JSON is a payload, also if `jsonb` cannot hold it.
        let is_json = [0, 3, 4, 6].contains(&n);
        assert_eq!(content(&letter).is_some(), is_json, "{n}");
        assert!(alone.raw.as_deref() == Some(*raw), "{n}: other bytes");
        assert_eq!(letter.cause, DeathCause::Captured);
        assert_eq!(letter.position, Some((n + 2000).to_string()));
        assert_eq!(letter.error_message, format!("at {}", n + 2000));
    }
    // The totals of the groups count as the letters do.
    let open = LetterFilter::new().state(LetterState::Open);
    for open in [open.clone(), open.ids_from(JobId::new(0))] {
        assert_eq!(db.dlq().count(&open).unwrap(), 2308);
    }
    // Bytes that a job cannot hold are not redriven.
    let alone_ids = LetterFilter::new().ids(alone_ids);
    assert_eq!(db.redrives(&alone_ids).redriven.len(), 4);
    assert_eq!(stats(&db, "orders").expect("letters").open, 2304);
}

#[test]
fn a_file_is_captured_and_its_bad_lines_are_reported() {
    let test = TestDatabase::migrated();
    let place = r#""source":"kafka","queue":"orders","kind":"order""#;
    let line = |position: u32, rest: &str| format!(r#"{{{place},"position":"{position}",{rest}}}"#);
    let first =
        r#""payload":{"number":1},"headers":{"trace":"abc"},"error_class":"E","error_message":"m""#;
    let lines = [
        line(1, first),
        "{broken".to_owned(),
        line(2, r#""raw":"{\"number\": \u0000""#),
        line(3, r#""raw_base64":"//4=""#),
        line(4, r#""raw_base64":"?""#),
        String::new(),
        line(5, r#""raw":"","colour":"red""#),
        line(1, r#""payload":{"number":1}"#),
        line(6, r#""error_class":"E""#),
        line(7, r#""payload":1,"raw":"x""#),
        line(8, r#""payload":1,"headers":{"a":1}"#),
        line(9, r#""payload":1"#).replace("orders", ""),
    ];
    let file = TempFile::of(lines.join("\n"));
    test.fails(1, format!("dlq capture --file {file}"))
        .prints("3 failures captured, 1 already known\n")
        .tells("line 2: ")
        .tells("line 5: raw_base64")
        .tells("line 7: unknown field")
        .tells("line 9: expected exactly one of")
        .tells("line 10: expected exactly one of")
        .tells("line 11: invalid type")
        .tells("line 12: ")
        .tells("7 bad lines");
    let counts = json!({ "new": 0, "reopened": 0, "known": 4, "bad_lines": 7 });
    let again = test.fails(1, format!("dlq capture --file {file} --json"));
    assert_eq!(again.lines(), [counts]);
    let mut found = test.open().listed(&of_orders());
    found.sort_by_key(|letter| letter.position.clone());
    let raw = found.into_iter().filter_map(|letter| letter.raw);
    let expected: [&[u8]; 3] = [b"{\"number\":1}", b"{\"number\": \0", b"\xff\xfe"];
    assert!(raw.eq(expected));
    test.fails(2, "dlq capture --file /nowhere.ndjson");
    test.fails(2, "dlq capture kafka 1");
}
