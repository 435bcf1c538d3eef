//! Captures of one failure: stored unchanged, once per position.

use redrive_tests::prelude::*;

use super::captured;

#[test]
fn a_known_position_with_other_bytes_says_so_until_its_letter_is_edited() {
    let (_test, db) = TestDatabase::opened();
    // The large ones differ in the bytes that the letter has.
    let large = |first: u8| {
        let mut bytes = vec![b'x'; 17 * 1024 * 1024];
        bytes[0] = first;
        bytes
    };
    for (position, first, other) in [
        ("3/1842", b"first".to_vec(), b"second".to_vec()),
        (
            "3/1843",
            br#"{"number": 1}"#.to_vec(),
            br#"{"number":1}"#.to_vec(),
        ),
        ("3/1844", b"\x00\xff".to_vec(), Vec::new()),
        ("3/1845", large(b'a'), large(b'b')),
    ] {
        let id = db.captures(&captured(position, &first[..]));
        let again = captured(position, &first[..]);
        assert_eq!(db.dlq().capture(&again).unwrap(), CaptureOutcome::Known(id));
        let other = captured(position, &other[..]);
        let different = CaptureOutcome::Different(id);
        assert_eq!(db.dlq().capture(&other).unwrap(), different);
        let both = db.dlq().capture_many([&other, &again]).unwrap();
        assert_eq!(both, [different, CaptureOutcome::Known(id)]);
    }
    let id = db.captures(&captured("3/1843", b"{}"));
    let one = only(id);
    let set = Edit::set(r#"{"number": 2}"#).unwrap();
    db.edits(&one, &set);
    let again = db.dlq().capture(&captured("3/1843", b"{}")).unwrap();
    assert_eq!(again, CaptureOutcome::Known(id));
}

#[test]
fn concurrent_captures_of_a_position_make_one_letter() {
    let test = TestDatabase::migrated();
    let capture_all = |db: Database| {
        let capture = |n: i32| db.dlq().capture(&captured(&n.to_string(), b"{}")).unwrap();
        (0..50).map(capture).collect::<Vec<_>>()
    };
    let answers = at_once(8, |_| test.open(), capture_all).concat();
    let new = answers
        .iter()
        .filter(|answer| matches!(answer, CaptureOutcome::New(_)));
    assert_eq!((answers.len(), new.count()), (400, 50));
    let asked = "SELECT count(*), sum(seen)::bigint FROM redrive.letters";
    let counts: (i64, i64) = test.client().row(asked, &[]);
    assert_eq!(counts, (50, 400));
}

#[test]
fn the_sql_function_captures_in_the_callers_transaction() {
    let (test, mut client) = TestDatabase::with_client();
    let mut tx = client.transaction().unwrap();
    let capture = "SELECT is_new FROM redrive.capture('outbox', '17', 'orders', 'order', '\\xff00'::bytea, \
             headers => '{\"trace\": \"abc\"}', error_class => 'Refused', error_message => 'no')";
    assert!(tx.ask::<bool>(capture, &[]));
    tx.rollback().unwrap();
    assert!(test.open().listed(&LetterFilter::new()).is_empty());
    client.refuses_each(
        "SELECT redrive.capture(@)",
        "NULL, '17', 'orders', 'order', ''          -- redrive:
         'outbox', NULL, 'orders', 'order', ''      -- redrive:
         'outbox', '17', '', 'order', ''            -- redrive:
         'outbox', '17', 'orders', NULL, ''         -- redrive:
         'outbox', '17', 'orders', 'order', NULL    -- redrive:",
    );
}

#[test]
fn long_names_and_positions_are_shortened_and_kept_in_the_headers() {
    let (_test, db) = TestDatabase::opened();
    // Random, so that the index cannot compress it.
    let random = || -> String { (0..300).map(|_| Uuid::new_v4().to_string()).collect() };
    let (position, kind, source) = (random(), random(), random());
    let other = format!("{position}!");
    let event = |position: &str| {
        ForeignFailure::new(&*source, position, "orders", &*kind, b"{}".as_slice())
            .header("trace", "7")
    };
    let id = db.captures_new(&event(&position));
    let again = db.dlq().capture(&event(&position)).unwrap();
    assert_eq!(again, CaptureOutcome::Known(id));
    let many = [event(&position), event(&other), captured("1", b"{}")];
    let many = db.dlq().capture_many(&many).unwrap();
    assert_eq!(many[0], CaptureOutcome::Known(id));
    let is_new = matches!(many[1], CaptureOutcome::New(_));
    assert!(is_new, "another position");
    for id in [id, many[1].id()] {
        let letter = db.letter(id);
        assert_eq!(letter.kind.len(), 255);
        assert!(letter.kind.starts_with(&kind[..222]), "{}", letter.kind);
        let headers: Value = serde_json::from_str(letter.headers.expect("headers").get()).unwrap();
        assert_eq!(headers["redrive-kind"], kind[..4096]);
        assert_eq!(headers["redrive-position"], position[..4096]);
        assert_eq!(headers["redrive-source"], source[..4096]);
        assert_eq!(headers["trace"], "7");
    }
    let short = db.letter(many[2].id());
    assert_eq!(&*short.kind, "order");
    assert_eq!(short.position.as_deref(), Some("1"));
    for bad in [
        ForeignFailure::new("s", "2", "orders", format!("\0{kind}"), b"{}".as_slice()),
        captured("8\0", b"bad"),
        captured("8", b"bad").group_key("a\0"),
        captured("8", b"bad").failure_key("a\0"),
    ] {
        let both = [captured("7", b"good"), bad];
        assert!(db.dlq().capture_many(&both).expect_err("NUL").is_invalid());
    }
    assert_eq!(stats(&db, "orders").expect("letters").open, 3);
}
