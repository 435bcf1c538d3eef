//! Capture: foreign failures as letters, byte for byte, once per position.

use std::thread;

use redrive::{Act, Capture, Captured, Job, LetterState, Letters, Reason};
use redrive_tests::{Order, TestDatabase, drained, stats, stop, worker};

fn captured(position: &str, raw: &[u8]) -> Captured {
    Captured::new("kafka:orders", position, "orders", "order", raw)
}

#[test]
fn any_bytes_are_kept_as_they_came() {
    let test = TestDatabase::migrated();
    let db = test.open();
    let long = vec![b'x'; 3_000_000];
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    let events: &[(&str, &[u8])] = &[
        ("malformed JSON", br#"{"number": 1, "#),
        ("a NUL byte", b"{\"a\": \"\0\"}"),
        ("an escaped NUL", br#"{"a": "\u0000"}"#),
        ("half a surrogate pair", br#""\ud800""#),
        ("invalid UTF-8", b"{\"a\": \"\xff\xfe\"}"),
        ("all bytes", &(0..=255).collect::<Vec<u8>>()),
        ("nothing", b""),
        ("a number that numeric cannot hold", b"1e999999"),
        ("too deep", &deep),
        ("three megabytes that are no JSON", &long),
    ];
    for (position, raw) in events {
        let event = captured(position, raw)
            .content_type("application/octet-stream")
            .error("ParseError", format!("cannot read {position}"))
            .detail("at byte 7");
        let Capture::New(id) = db.capture(&event).unwrap() else {
            panic!("{position}: not new")
        };
        let letter = db.letter(id).unwrap().expect("a letter");
        assert!(
            letter.raw.as_deref() == Some(*raw),
            "{position}: other bytes"
        );
        assert!(letter.payload.is_none(), "{position}: taken for JSON");
        assert_eq!(
            (letter.reason, letter.state),
            (Reason::Captured, LetterState::Open)
        );
        assert_eq!((&*letter.queue, &*letter.kind), ("orders", "order"));
        assert_eq!(
            (letter.source.as_deref(), letter.position.as_deref()),
            (Some("kafka:orders"), Some(*position))
        );
        assert_eq!(
            letter.content_type.as_deref(),
            Some("application/octet-stream")
        );
        assert_eq!(
            (&*letter.error_class, letter.error_detail.as_deref()),
            ("ParseError", Some("at byte 7"))
        );
        assert_eq!((letter.attempts, letter.history.len()), (0, 0));
    }
    // What a job could not carry is not redriven, and stays.
    let redriven = db.redrive(&Letters::queue("orders"), &Act::new()).unwrap();
    assert_eq!(redriven.redriven, []);
    assert_eq!(
        stats(&db, "orders").expect("letters").open,
        events.len() as u64
    );
}

#[test]
fn a_captured_event_that_is_json_becomes_a_job_when_it_is_redriven() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let raw = br#"  {"number":  7}  "#;
    let Capture::New(id) = db.capture(&captured("1", raw)).unwrap() else {
        panic!("not new")
    };
    let letter = db.letter(id).unwrap().expect("a letter");
    assert_eq!(letter.raw.as_deref(), Some(&raw[..]));
    assert_eq!(letter.payload.expect("JSON").get(), r#"{"number": 7}"#);
    assert_eq!(
        db.redrive(&Letters::ids([id]), &Act::new())
            .unwrap()
            .redriven,
        [id]
    );
    let worker = worker(&queue)
        .handle(|job: &Job<Order>| {
            assert_eq!((job.payload().number, job.generation()), (7, 1));
            Ok(())
        })
        .start()
        .unwrap();
    drained(&queue);
    assert_eq!(stop(worker).counts.done, 1);
    let letter = db.letter(id).unwrap().expect("it stays");
    assert_eq!(letter.state, LetterState::Recovered);
    assert_eq!(letter.raw.as_deref(), Some(&raw[..]), "with its bytes");
}

#[test]
fn the_same_position_again_counts_and_changes_nothing_else() {
    let test = TestDatabase::migrated();
    let db = test.open();
    let Capture::New(id) = db.capture(&captured("3/1842", b"first")).unwrap() else {
        panic!("not new")
    };
    for _ in 0..3 {
        let again = captured("3/1842", b"second").error("Other", "another text");
        assert_eq!(db.capture(&again).unwrap(), Capture::Known(id));
    }
    let Capture::New(other) = db.capture(&captured("3/1843", b"first")).unwrap() else {
        panic!("not new")
    };
    assert_ne!(id, other);
    let letter = db.letter(id).unwrap().expect("a letter");
    assert_eq!(
        (letter.raw.as_deref(), &*letter.error_class),
        (Some(&b"first"[..]), "captured")
    );
    let seen: i64 = test
        .client()
        .query_one(
            "SELECT seen FROM redrive.letters WHERE id = $1",
            &[&id.get()],
        )
        .unwrap()
        .get(0);
    assert_eq!(seen, 4);
}

#[test]
fn a_position_captured_by_many_at_once_is_one_letter() {
    let test = TestDatabase::migrated();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let db = test.open();
            thread::spawn(move || {
                (0..50)
                    .map(|n| db.capture(&captured(&n.to_string(), b"{}")).unwrap())
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    let answers: Vec<Capture> = threads
        .into_iter()
        .flat_map(|thread| thread.join().expect("a capturer"))
        .collect();
    let new = answers
        .iter()
        .filter(|answer| matches!(answer, Capture::New(_)))
        .count();
    assert_eq!((answers.len(), new), (400, 50));
    let asked = "SELECT count(*), sum(seen)::bigint FROM redrive.letters";
    let row = test.client().query_one(asked, &[]).unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (50, 400));
}

#[test]
fn sql_captures_in_the_transaction_of_any_language() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let mut tx = client.transaction().unwrap();
    let row = tx
        .query_one(
            "SELECT * FROM redrive.capture('outbox', '17', 'orders', 'order', '\\xff00'::bytea, \
             headers => '{\"trace\": \"abc\"}', error_class => 'Refused', error_message => 'no')",
            &[],
        )
        .unwrap();
    assert!(row.get::<_, bool>("is_new"));
    tx.rollback().unwrap();
    assert!(test.open().letters(&Letters::all()).unwrap().is_empty());
    for arguments in [
        "NULL, '17', 'orders', 'order', ''",
        "'outbox', NULL, 'orders', 'order', ''",
        "'outbox', '17', '', 'order', ''",
        "'outbox', '17', 'orders', NULL, ''",
        "'outbox', '17', 'orders', 'order', NULL",
    ] {
        let error = client
            .query(&format!("SELECT redrive.capture({arguments})"), &[])
            .expect_err(arguments);
        let message = error
            .as_db_error()
            .expect("an answer of the server")
            .message();
        assert!(message.starts_with("redrive: "), "{arguments}: {message}");
    }
}

#[test]
fn huge_texts_and_odd_headers_do_not_stop_a_capture() {
    let test = TestDatabase::migrated();
    let db = test.open();
    let event = captured("1", b"{}")
        .header("trace\0id", "a\0b")
        .header("blob", "y".repeat(100_000))
        .error("C".repeat(5000), "m".repeat(1_000_000))
        .detail("d\0".repeat(1_000_000));
    let Capture::New(id) = db.capture(&event).unwrap() else {
        panic!("not new")
    };
    let letter = db.letter(id).unwrap().expect("a letter");
    assert!(letter.error_class.len() <= 1024 && letter.error_message.len() <= 8192);
    assert!(letter.error_detail.expect("a detail").len() <= 65536);
    for bad in [
        Captured::new("a\0b", "1", "orders", "order", b"".as_slice()),
        Captured::new("s", "1\0", "orders", "order", b"".as_slice()),
        Captured::new("s", "1", "or\nders", "order", b"".as_slice()),
        Captured::new("s", "1", "orders", "", b"".as_slice()),
    ] {
        assert!(db.capture(&bad).expect_err("a bad name").is_invalid());
    }
}
