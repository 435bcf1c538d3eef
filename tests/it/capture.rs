//! Capture: foreign failures as letters, byte for byte, once per position.

use std::thread;

use redrive::{Act, Capture, Captured, Job, LetterState, Letters, Reason};
use redrive_tests::{Order, TestDatabase, drained, ran, stats, stop, worker};

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

#[test]
fn many_are_captured_as_one_by_one_would_be() {
    let test = TestDatabase::migrated();
    let db = test.open();
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
    let events: Vec<Captured> = (0..2300)
        .map(|n| captured(&n.to_string(), odd[n % odd.len()]).error("E", format!("at {n}")))
        .collect();
    let answers = db.capture_many(&events).unwrap();
    assert_eq!(answers.len(), 2300);
    let one_by_one = test.open();
    for (n, raw) in odd.iter().enumerate() {
        let Capture::New(id) = answers[n + 2000] else {
            panic!("{n}: {:?}", answers[n + 2000])
        };
        let letter = db.letter(id).unwrap().expect("a letter");
        assert!(letter.raw.as_deref() == Some(*raw), "{n}: other bytes");
        let alone = captured(&format!("alone {n}"), raw);
        let Capture::New(id) = one_by_one.capture(&alone).unwrap() else {
            panic!("not new")
        };
        let alone = db.letter(id).unwrap().expect("a letter");
        let json =
            |letter: &redrive::Letter| letter.payload.as_ref().map(|json| json.get().to_owned());
        assert_eq!(json(&letter), json(&alone), "{n}");
        assert_eq!(letter.error_message, format!("at {}", n + 2000));
    }
    // Once more: the same letters, counted.
    let again = db.capture_many(&events).unwrap();
    for (first, second) in answers.iter().zip(&again) {
        let Capture::New(id) = first else {
            panic!("not new")
        };
        assert_eq!(second, &Capture::Known(*id));
    }
    assert_eq!(stats(&db, "orders").expect("letters").open, 2308);
}

#[test]
fn a_position_that_comes_twice_at_once_is_one_letter() {
    let test = TestDatabase::migrated();
    let db = test.open();
    let events = [
        captured("1", b"first"),
        captured("2", b"other"),
        captured("1", b"second"),
        captured("1", b"third"),
    ];
    let answers = db.capture_many(&events).unwrap();
    let [
        Capture::New(first),
        Capture::New(_),
        Capture::Known(second),
        Capture::Known(third),
    ] = answers[..]
    else {
        panic!("{answers:?}")
    };
    assert_eq!((first, first), (second, third));
    let letter = db.letter(first).unwrap().expect("a letter");
    assert_eq!(letter.raw.as_deref(), Some(&b"first"[..]));
    let seen = "SELECT seen FROM redrive.letters WHERE id = $1";
    let row = test.client().query_one(seen, &[&first.get()]).unwrap();
    assert_eq!(row.get::<_, i64>(0), 3);
    assert!(db.capture_many(&[]).unwrap().is_empty());
    let bad = [captured("7", b"good"), captured("8\0", b"bad")];
    assert!(db.capture_many(&bad).expect_err("NUL").is_invalid());
    assert_eq!(stats(&db, "orders").expect("letters").open, 2);
}

#[test]
fn many_who_capture_the_same_at_once_make_each_once() {
    let test = TestDatabase::migrated();
    let threads: Vec<_> = (0..4)
        .map(|n| {
            let db = test.open();
            thread::spawn(move || {
                // In different orders, so that they would wait for each other.
                let mut events: Vec<Captured> = (0..700)
                    .map(|n| captured(&n.to_string(), b"{}").error("E", format!("code {}", n % 9)))
                    .collect();
                events.rotate_left(n * 150);
                let answers = db.capture_many(&events).unwrap();
                answers
                    .iter()
                    .filter(|answer| matches!(answer, Capture::New(_)))
                    .count()
            })
        })
        .collect();
    let new: usize = threads
        .into_iter()
        .map(|thread| thread.join().expect("a capturer"))
        .sum();
    assert_eq!(new, 700);
    let asked = "SELECT count(*), sum(seen)::bigint FROM redrive.letters";
    let row = test.client().query_one(asked, &[]).unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (700, 2800));
}

#[test]
fn a_file_is_captured_and_its_bad_lines_are_named() {
    let test = TestDatabase::migrated();
    let line = |position: u32, rest: &str| {
        format!(
            r#"{{"source":"kafka","position":"{position}","queue":"orders","kind":"order",{rest}}}"#
        )
    };
    let lines = [
        line(
            1,
            r#""payload":{"number":1},"headers":{"trace":"abc"},"error_class":"E","error_message":"m""#,
        ),
        "{broken".to_owned(),
        line(2, r#""raw":"{\"number\": \u0000""#),
        line(3, r#""raw_base64":"//4=""#),
        line(4, r#""raw_base64":"?""#),
        String::new(),
        line(5, r#""raw":"","colour":"red""#),
        line(1, r#""payload":{"number":1}"#),
    ];
    let file = std::env::temp_dir().join(format!("{}.captures.ndjson", test.name()));
    std::fs::write(&file, lines.join("\n")).unwrap();
    let path = file.to_str().expect("a path in UTF-8");
    let told = ran(&test, &["dlq", "capture", "--file", path]).exits_with(1);
    assert_eq!(told.out, "3 failures captured, 1 known before\n");
    for bad in [
        "line 2: ",
        "line 5: raw_base64",
        "line 7: unknown field",
        "3 bad lines",
    ] {
        assert!(told.err.contains(bad), "{bad}: {}", told.err);
    }
    let again = ran(&test, &["dlq", "capture", "--file", path, "--json"]).exits_with(1);
    assert_eq!(
        again.lines(),
        [serde_json::json!({ "new": 0, "known": 4, "bad_lines": 3 })]
    );
    std::fs::remove_file(&file).unwrap();
    let found = test.open().letters(&Letters::queue("orders")).unwrap();
    let raw = |position: &str| {
        let letter = found
            .iter()
            .find(|letter| letter.position.as_deref() == Some(position));
        letter
            .and_then(|letter| letter.raw.clone())
            .expect("a letter with bytes")
    };
    assert_eq!(raw("1"), b"{\"number\":1}");
    assert_eq!(raw("2"), b"{\"number\": \0");
    assert_eq!(raw("3"), b"\xff\xfe");
    ran(&test, &["dlq", "capture", "--file", "/nowhere.ndjson"]).exits_with(2);
    ran(&test, &["dlq", "capture", "kafka", "1"]).exits_with(2);
}

#[expect(dead_code, reason = "a test has no use for its main")]
#[path = "../../crates/redrive/examples/stream_consumer.rs"]
mod stream_consumer;

#[test]
fn a_consumer_of_a_stream_loses_nothing_and_captures_nothing_twice() {
    let test = TestDatabase::migrated();
    let db = test.open();
    let mut log = Vec::new();
    for order in 0..250 {
        match order % 50 {
            7 => log.extend(b"{\"order\": \xff"),
            9 => log.extend(format!("{{\"order\": {order}, \"cents\": 0}}").bytes()),
            _ => log.extend(format!("{{\"order\": {order}, \"cents\": 100}}").bytes()),
        }
        log.push(b'\n');
    }
    let consume = |from| {
        let consumed =
            stream_consumer::consume(&log[..], "log:orders", from, &db, stream_consumer::process)
                .unwrap();
        (consumed.processed, consumed.captured, consumed.next_offset)
    };
    assert_eq!(consume(0), (240, 10, 250));
    // It was killed before its offset was committed, and begins again with the last batch.
    assert_eq!(consume(200), (48, 2, 250));
    assert_eq!(consume(250), (0, 0, 250));
    let found = db.letters(&Letters::queue("orders")).unwrap();
    assert_eq!(found.len(), 10);
    let count = |class: &str| {
        found
            .iter()
            .filter(|letter| letter.error_class == class)
            .count()
    };
    assert_eq!((count("Undecodable"), count("OrderRefused")), (5, 5));
    let odd = found
        .iter()
        .find(|letter| letter.position.as_deref() == Some("57"))
        .expect("the event at this offset");
    assert_eq!(odd.raw.as_deref(), Some(&b"{\"order\": \xff"[..]));
    // Mended and valid, it is a job like any other.
    let set = redrive::Edit::set(r#"{"order": 57, "cents": 100}"#).unwrap();
    db.edit(&Letters::ids([odd.id]), &set, &Act::new()).unwrap();
    let redriven = db.redrive(&Letters::ids([odd.id]), &Act::new()).unwrap();
    assert_eq!(redriven.redriven, [odd.id]);
}
