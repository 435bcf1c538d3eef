//! Large captures are kept whole, however they arrive and wherever the letter goes.

use redrive::limits::MAX_CAPTURE_BYTES;
use redrive_tests::prelude::*;

use super::super::super::archive::archive_all;
use super::{START, body, captured, is_whole};

#[test]
fn a_letter_shows_the_start_and_the_size() {
    let (test, db) = TestDatabase::opened();
    let body = body("1234");
    let id = db.captures(&captured("1", &body));
    is_whole(&db, id, &body);

    test.run(format!("dlq show {id}"))
        .shows(format!("Captured, {} bytes", body.len()))
        .shows("--raw");
    let line = test.run(format!("dlq show {id} --json")).json();
    assert_eq!(line["raw_size"], body.len());
    assert_eq!(line["raw_hex"].as_str().map(str::len), Some(2 * START));
    assert!(shown_raw(&test, id) == body, "other bytes");

    // While the letter waits, a second capture only counts.
    let again = db.dlq().capture(&captured("1", &body)).unwrap();
    assert_eq!(again, CaptureOutcome::Known(id));
    assert_eq!(db.letter(id).seen, 2);

    // These are as large as a letter shows.
    let whole = vec![b'x'; 16 << 20];
    let id = db.captures(&captured("2", &whole));
    let found = db.letter(id);
    assert!(found.raw.as_deref() == Some(&*whole), "other bytes");
    assert_eq!(found.raw_size, None);
}

#[test]
fn every_way_to_capture_keeps_all_bytes() {
    let (test, db) = TestDatabase::opened();
    let body = body("1234");
    let mut ids: Vec<JobId> = Vec::new();

    let many = [
        captured("1", b"{}"),
        captured("2", &body),
        captured("2", b"other bytes of the same position"),
    ];
    let many = db.dlq().capture_many(&many).unwrap();
    assert_eq!(many[2], CaptureOutcome::Different(many[1].id()));
    ids.push(many[1].id());
    assert_eq!(db.letter(many[0].id()).raw_size, None);

    let from_sql = "SELECT id FROM redrive.capture('kafka', 'sql', 'orders', 'order', $1)";
    ids.push(JobId::new(test.client().ask(from_sql, &[&body])));
    let many_from_sql = "SELECT id FROM redrive.capture_letters(ARRAY[jsonb_build_object(
        'source', 'kafka', 'position', 'many', 'queue', 'orders', 'kind', 'order')], ARRAY[$1::bytea])";
    ids.push(JobId::new(test.client().ask(many_from_sql, &[&body])));

    let file = TempFile::of(&body);
    let told = test
        .run(format!("dlq capture kafka cli orders order {file}"))
        .out;
    ids.push(told.trim().parse().unwrap());
    for id in ids {
        is_whole(&db, id, &body);
    }
}

/// Captures the lines in another database.
fn import(test: &TestDatabase, lines: &str) {
    let file = TempFile::of(lines);
    test.run(format!("dlq capture --file {file}"));
}

#[test]
fn an_export_carries_all_bytes_to_another_database() {
    let (from, to) = (TestDatabase::migrated(), TestDatabase::migrated());
    let (db, other) = (from.open(), to.open());
    let text = body("1234");
    db.captures(&captured("text", &text));
    assert_eq!(archive_all(&db), 1);
    let lines = from.run("dlq archive export").out;
    import(&to, &lines);
    // Not UTF-8.
    let binary = vec![b'\xff'; 17 << 20];
    db.captures(&captured("binary", &binary));
    let lines = from.run("dlq export orders").out;
    import(&to, &lines);
    for letter in other.listed(&LetterFilter::new()) {
        match letter.position.as_deref() {
            Some("text") => is_whole(&other, letter.id, &text),
            _ => is_whole(&other, letter.id, &binary),
        }
    }
}

#[test]
fn a_redrive_leaves_the_letter_out_and_a_delivery_sends_all_bytes() {
    let (test, db) = TestDatabase::opened();
    let body = body("1234");
    let id = db.captures(&captured("1", &body));
    db.leaves_out(&only(id), &[(Skip::TooLarge, 1)]);
    let shown = ran(&test, &["dlq", "redrive", "orders"]);
    has(format!("{}{}", shown.out, shown.err), "exceed 16 MiB");
    let done = db.redrives(&only(id));
    assert_eq!(done.skipped, [(id, Skip::TooLarge)]);
    let lenient = Validators::new().kind("order", |_: &Letter| Ok::<_, String>(()));
    let found = db.dlq().validate(&only(id), &lenient).unwrap();
    assert_eq!((found.passed, found.failed), (0, 1));
    let why = &found.errors[0].message;
    assert!(why.starts_with("its captured bytes exceed"), "{why}");

    let sent = Mutex::new(Vec::new());
    let sink = |letter: &Letter| {
        sent.lock().unwrap().push(letter.clone());
        Ok(())
    };
    let done = db.dlq().deliver(&only(id), &sink, &maria()).unwrap();
    assert_eq!(done.delivered, [id]);
    let sent = sent.into_inner().unwrap();
    assert!(sent[0].raw.as_deref() == Some(&*body), "other bytes");
    assert_eq!(db.letter(id).state, LetterState::Recovered);
}

#[test]
fn an_edit_makes_the_letter_redrivable_and_its_undo_brings_all_bytes_back() {
    let (_test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let body = body("1234");
    let id = db.captures(&captured("1", &body));
    let edit = Edit::set("{\"number\": 1}").unwrap();
    db.edits(&only(id), &edit);
    assert_eq!(db.dlq().captured_bytes(id).unwrap(), None);
    assert_eq!(db.letter(id).raw_size, None);
    db.restores(&only(id), None);
    is_whole(db, id, &body);
    db.edits(&only(id), &edit);
    assert_eq!(db.redrives(&only(id)).redriven, [id]);
    work_off(&queue, |job: &Job<Order>| {
        assert_eq!(job.payload().number, 1);
        Ok(())
    });
    assert_eq!(db.letter(id).state, LetterState::Recovered);
}

#[test]
fn the_archive_keeps_all_bytes() {
    let (test, db) = TestDatabase::opened();
    // They differ after the start, and in their size.
    let (first, second, other) = (body("1"), body("12"), body("123"));
    let id = db.captures(&captured("1", &first));
    db.discards(&only(id));
    db.captures(&captured("1", &second));
    let of_another = db.captures(&captured("2", &other));
    assert_eq!(archive_all(&db), 2);
    for (id, body) in [(id, second), (of_another, other)] {
        let archived = db.dlq().archived_letter(id).unwrap().expect("archived");
        assert_eq!(archived.raw_size, Some(body.len() as u64));
        let found = db.dlq().archived_bytes(id).unwrap();
        assert!(found.as_deref() == Some(&*body), "other bytes");
        assert!(shown_raw(&test, id) == body, "other bytes");
        db.dlq().restore(&only(id), &maria()).unwrap();
        assert_eq!(db.dlq().archived_bytes(id).unwrap(), None);
        is_whole(&db, id, &body);
    }
}

#[test]
fn a_capture_that_exceeds_a_message_is_rejected_before_it_is_sent() {
    let failure = |bytes| ForeignFailure::new("s", "1", "orders", "order", vec![0; bytes]);
    failure(MAX_CAPTURE_BYTES - 7).check().unwrap();
    let error = failure(MAX_CAPTURE_BYTES - 6).check().unwrap_err();
    assert!(error.is_invalid(), "{error}");
    has(error, MAX_CAPTURE_BYTES.to_string());
}
