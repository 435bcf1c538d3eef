//! Export: letters as lines that capture and enqueue read back, byte for byte.

use std::fs;
use std::path::PathBuf;

use redrive::{Act, Captured, Edit, Letter, LetterState, Letters};
use redrive_tests::{TestDatabase, letters, ran, stats};

/// A file, gone with the test.
struct File(PathBuf);

impl File {
    fn of(test: &TestDatabase, text: &str) -> File {
        let path = std::env::temp_dir().join(format!("{}.export.ndjson", test.name()));
        fs::write(&path, text).expect("write a file for the test");
        File(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path in UTF-8")
    }
}

impl Drop for File {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.0);
    }
}

/// All letters, by source and position.
fn by_position(test: &TestDatabase) -> Vec<Letter> {
    let mut all = test.open().letters(&Letters::all().limit(10_000)).unwrap();
    all.sort_by_key(|letter| (letter.source.clone(), letter.position.clone()));
    all
}

#[test]
fn odd_bytes_go_out_and_come_back_as_they_were() {
    let test = TestDatabase::migrated();
    let db = test.open();
    let all: Vec<u8> = (0..=255).collect();
    let deep = [vec![b'['; 300], vec![b']'; 300]].concat();
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
        (
            "text",
            "größe \u{202e}\u{1f600}\u{2028}\r\n\t\\\"".as_bytes(),
        ),
    ];
    for (position, raw) in events {
        let event = Captured::new("kafka:\"o\"\n", position, "orders", "order.placed", raw)
            .content_type("application/x-odd; a=\"b\"")
            .header("trace", "a\nb")
            .header("empty", "")
            .error("Parse\"Error", format!("cannot read\n{position}"))
            .detail("at byte 7\n\tat main");
        db.capture(&event).unwrap();
    }
    let exported = ran(&test, &["dlq", "export", "orders"]).exits_with(0);
    assert_eq!(exported.out.lines().count(), events.len());
    assert!(
        exported.err.contains("11 letters exported"),
        "{}",
        exported.err
    );

    let other = TestDatabase::migrated();
    let file = File::of(&other, &exported.out);
    let told = ran(&other, &["dlq", "capture", "--file", file.path()]).exits_with(0);
    assert_eq!(told.out, "11 failures captured, 0 known before\n");
    let (before, after) = (by_position(&test), by_position(&other));
    assert_eq!((before.len(), after.len()), (11, 11));
    for (before, after) in before.iter().zip(&after) {
        let json = |letter: &Letter| letter.payload.as_ref().map(|json| json.get().to_owned());
        let headers = |letter: &Letter| letter.headers.as_ref().map(|json| json.get().to_owned());
        assert!(before.raw == after.raw, "{:?}", before.position);
        assert_eq!(json(before), json(after));
        assert_eq!(headers(before), headers(after));
        assert_eq!(before.source, after.source);
        assert_eq!(before.position, after.position);
        assert_eq!((&before.queue, &before.kind), (&after.queue, &after.kind));
        assert_eq!(before.content_type, after.content_type);
        assert_eq!(before.error_class, after.error_class);
        assert_eq!(before.error_message, after.error_message);
        assert_eq!(before.error_detail, after.error_detail);
    }
    // Once more is the same letters.
    let again = ran(&other, &["dlq", "capture", "--file", file.path()]).exits_with(0);
    assert_eq!(again.out, "0 failures captured, 11 known before\n");
    // And what they export is the same text.
    let second = ran(&other, &["dlq", "export", "orders"]).exits_with(0);
    assert_eq!(second.out, exported.out);
}

#[test]
fn letters_of_jobs_and_edited_ones_come_back_with_their_payload() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = letters(&queue, 3);
    let db = queue.database();
    let set = Edit::set(r#"{"n": 12345678901234567890.125, "x": null}"#).unwrap();
    db.edit(&Letters::ids([ids[1]]), &set, &Act::new()).unwrap();
    db.edit(
        &Letters::ids([ids[2]]),
        &Edit::set("null").unwrap(),
        &Act::new(),
    )
    .unwrap();
    let exported = ran(&test, &["dlq", "export", "orders"]).exits_with(0);

    let other = TestDatabase::migrated();
    let file = File::of(&other, &exported.out);
    ran(&other, &["dlq", "capture", "--file", file.path()]).exits_with(0);
    for id in ids {
        let before = db.letter(id).unwrap().unwrap();
        let found = by_position(&other);
        let after = found
            .iter()
            .find(|letter| letter.position.as_deref() == Some(&*id.to_string()))
            .expect("the letter");
        assert_eq!(after.source.as_deref(), Some("redrive:letter"));
        assert_eq!(
            before.payload.unwrap().get(),
            after.payload.as_ref().unwrap().get()
        );
        assert_eq!(
            (&*after.error_class, &*after.error_message),
            ("Rejected", "broken")
        );
    }
}

#[test]
fn payloads_go_out_as_jobs_and_what_is_none_is_named() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    letters(&queue, 120);
    let db = queue.database();
    let event = Captured::new("kafka", "1", "orders", "order", &b"\xff"[..]);
    let redrive::Capture::New(odd) = db.capture(&event).unwrap() else {
        panic!("not new")
    };
    let exported = ran(&test, &["dlq", "export", "orders", "--as-jobs"]).exits_with(1);
    assert!(
        exported.err.contains(&format!("letter {odd} is left out"))
            && exported.err.contains("120 jobs exported"),
        "{}",
        exported.err
    );
    let other = TestDatabase::migrated();
    let file = File::of(&other, &exported.out);
    ran(
        &other,
        &["enqueue", "again", "order", "--file", file.path()],
    )
    .exits_with(0);
    assert_eq!(stats(&other.open(), "again").expect("jobs").ready, 120);
}

#[test]
fn what_is_exported_is_what_is_listed() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = letters(&queue, 5);
    let db = queue.database();
    db.discard(&Letters::ids([ids[0]]), &Act::new().why("test"))
        .unwrap();
    let count = |arguments: &[&str], code| {
        let all = [&["dlq", "export"][..], arguments].concat();
        ran(&test, &all).exits_with(code).out.lines().count()
    };
    assert_eq!(count(&["orders"], 0), 4);
    assert_eq!(count(&[], 0), 4);
    assert_eq!(count(&["orders", "--state", "any"], 0), 5);
    assert_eq!(count(&["orders", "--state", "discarded"], 0), 1);
    assert_eq!(count(&["orders", "--limit", "3"], 0), 3);
    assert_eq!(count(&["--id", &ids[2].to_string()], 0), 1);
    assert_eq!(count(&["orders", "--kind", "other"], 1), 0);
    assert_eq!(stats(db, "orders").expect("letters").open, 4);
    assert_eq!(
        db.letter(ids[0]).unwrap().unwrap().state,
        LetterState::Discarded
    );
}
