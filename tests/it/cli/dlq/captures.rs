//! Captured failures: `redrive dlq capture` of closed ones, and their sources on the on-call screen.

use std::time::{Duration, Instant};

use redrive::JobId;
use redrive::dlq::ForeignFailure;
use redrive_tests::TestDatabase;

use super::super::{letters, redrive};

fn discard(db: &TestDatabase, id: JobId) {
    let id = id.to_string();
    redrive(db, &["dlq", "discard", "--id", &id, "--reason", "refunded"]).exits_with(0);
}

#[test]
fn the_command_says_that_a_letter_was_reopened() {
    let test = TestDatabase::migrated();
    let db = test.open();
    let failure = ForeignFailure::new("kafka:orders", "1", "orders", "order", *b"{}")
        .error("Timeout", "no answer");
    let id = db.dlq().capture(&failure).unwrap().id();
    let path = std::env::temp_dir().join(format!("{}.again.ndjson", test.name()));
    let line = r#"{"source":"kafka:orders","position":"1","queue":"orders","kind":"order","payload":{"number":1},"error_class":"SchemaMismatch","error_message":"missing field"}"#;
    std::fs::write(&path, line).unwrap();
    let file = path.to_str().expect("a path in UTF-8");

    discard(&test, id);
    let one = [
        "dlq",
        "capture",
        "kafka:orders",
        "1",
        "orders",
        "order",
        file,
        "--error-class",
        "Other",
    ];
    let output = redrive(&test, &one).exits_with(0);
    assert_eq!(output.out, format!("{id}\n"));
    let said = format!("letter {id} of this position was closed; it is open again");
    assert!(output.err.contains(&said), "{}", output.err);

    discard(&test, id);
    let output = redrive(&test, &["dlq", "capture", "--file", file]).exits_with(0);
    assert_eq!(
        output.out,
        "0 failures captured, 1 letter reopened, 0 already known\n"
    );
    discard(&test, id);
    let output = redrive(&test, &["dlq", "capture", "--file", file, "--json"]).exits_with(0);
    assert_eq!(
        output.lines(),
        [serde_json::json!({ "new": 0, "reopened": 1, "known": 0, "bad_lines": 0 })]
    );
    std::fs::remove_file(&path).unwrap();

    let shown = redrive(&test, &["dlq", "show", &id.to_string()])
        .exits_with(0)
        .out;
    for line in [
        "captured: Timeout: no answer",
        "captured of generation 3: SchemaMismatch: missing field",
        "discarded",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
}

#[test]
fn a_limited_capture_drops_nothing_and_takes_its_time() {
    let test = TestDatabase::migrated();
    let path = std::env::temp_dir().join(format!("{}.flood.ndjson", test.name()));
    let lines: String = (0..5)
        .map(|n| {
            format!(
                r#"{{"source":"kafka:orders","position":"{n}","queue":"orders","kind":"order","payload":{n}}}"#
            ) + "\n"
        })
        .collect();
    std::fs::write(&path, lines).unwrap();
    let file = path.to_str().expect("a path in UTF-8");
    let begin = Instant::now();
    let output = redrive(&test, &["dlq", "capture", "--file", file, "--rate", "2"]).exits_with(0);
    // Two at once, two that are due within the second after, and one a second later.
    assert!(begin.elapsed() >= Duration::from_secs(1));
    assert_eq!(output.out, "5 failures captured, 0 already known\n");
    std::fs::remove_file(&path).unwrap();
    redrive(&test, &["dlq", "capture", "--file", file, "--rate", "0"]).exits_with(2);
}

#[test]
fn the_screen_counts_captured_failures_by_source() {
    let test = TestDatabase::migrated();
    let db = test.open();
    let empty = redrive(&test, &["dlq", "--json"]).exits_with(0).lines();
    assert_eq!(empty[0]["sources"], serde_json::json!([]));
    let capture = |source: &str, count: i64| {
        let failure =
            |n: i64| ForeignFailure::new(source, n.to_string(), "orders", "order", *b"{}");
        let failures: Vec<ForeignFailure> = (0..count).map(failure).collect();
        db.dlq().capture_many(&failures).unwrap();
    };
    capture("kafka:old", 40);
    let age = "UPDATE redrive.dead_letters SET died_at = died_at - interval '2 hours'";
    test.client().execute(age, &[]).unwrap();
    capture("kafka:old", 40);
    capture("web hooks", 30);
    for source in ["a", "b", "c", "d"] {
        capture(source, 1);
    }
    letters(&test, &test.queue("orders"), 2);
    let screen = redrive(&test, &["dlq", "--json"]).exits_with(0).lines();
    assert_eq!(screen[0]["sources_complete"], true);
    let sources = screen[0]["sources"].as_array().unwrap();
    let counts: Vec<_> = sources
        .iter()
        .map(|line| {
            (
                &line["source"],
                &line["open"],
                &line["captured_last_hour"],
                &line["seen"],
            )
        })
        .take(2)
        .map(|(source, open, hour, seen)| format!("{source} {open} {hour} {seen}"))
        .collect();
    assert_eq!(counts, [r#""web hooks" 30 30 30"#, r#""a" 1 1 1"#]);
    assert_eq!((sources.len(), &sources[5]["seen"]), (6, &80.into()));

    let screen = redrive(&test, &["dlq"]).exits_with(0).out;
    let (_, captured) = screen
        .split_once("Captured failures by source")
        .expect(&screen);
    for line in [
        "  web hooks: 30 open, 30 captured in the last hour, last ",
        "redrive dlq list 'source=\"web hooks\"'",
        "  and 1 other source",
    ] {
        assert!(captured.contains(line), "{line}: {screen}");
    }
    assert!(!captured.contains("kafka:old"), "{screen}");
}
