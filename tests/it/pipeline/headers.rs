//! Headers and group keys: set in SQL, kept through every step of a job and its letter.

use std::fs;
use std::time::Duration;

use redrive::dlq::{ForeignFailure, LetterFilter, LetterState, RetentionRule};
use redrive::{Failure, Job, JobId, Operator, Queue};
use redrive_tests::{Order, TestDatabase, drained, ran, stop, worker};
use serde_json::Value;

const HEADERS: &str = r#"{"trace": "4bf9", "tenant": "north"}"#;
const GROUP_KEY: &str = "customer-17";

/// Runs the job until it is dead-lettered: one retry, then death.
fn die(queue: &Queue) {
    let failing = worker(queue)
        .handle(|_: &Job<Order>| Err(Failure::retry("gateway down")))
        .start()
        .unwrap();
    drained(queue);
    let stats = stop(failing).stats;
    assert_eq!((stats.retried, stats.dead), (1, 1));
}

#[track_caller]
fn letter_keeps_both(queue: &Queue, id: JobId) {
    let letter = queue.database().dlq().get(id).unwrap().expect("a letter");
    let headers = letter.headers.expect("headers");
    assert_eq!(json(headers.get()), json(HEADERS));
    assert_eq!(letter.group_key.as_deref(), Some(GROUP_KEY));
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn headers_and_group_key_survive_every_step_of_a_job() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let new = redrive::NewJob::new(&Order { number: 7 })
        .unwrap()
        .max_attempts(2);
    let id = queue.enqueue_job(new).unwrap().id();
    let set =
        "UPDATE redrive.jobs SET headers = $1::text::jsonb, group_key = $2::text WHERE id = $3";
    let changed = test
        .client()
        .execute(set, &[&HEADERS, &GROUP_KEY, &id.get()]);
    assert_eq!(changed.unwrap(), 1);

    die(&queue);
    letter_keeps_both(&queue, id);
    db.dlq()
        .redrive(&LetterFilter::new().ids([id]), &Operator::default())
        .unwrap();
    die(&queue);
    letter_keeps_both(&queue, id);

    let exported = ran(&test, &["dlq", "export", "orders"]).exits_with(0);
    imported_letter_keeps_both(&exported.out);

    db.dlq()
        .discard(
            &LetterFilter::new(),
            &Operator::default().reason("test data"),
        )
        .unwrap();
    let rule = RetentionRule::archive(LetterState::Discarded, Duration::ZERO);
    let retention = db.dlq().retention();
    retention.set(&rule, &Operator::default()).unwrap();
    assert_eq!(retention.apply(&Operator::default()).unwrap(), 1);
    let archived = db.dlq().archived(&LetterFilter::new()).unwrap();
    let stored = &archived[0].letter;
    assert_eq!(
        stored.headers.as_ref().map(|headers| json(headers.get())),
        Some(json(HEADERS))
    );
    assert_eq!(stored.group_key.as_deref(), Some(GROUP_KEY));
}

/// Captures exported letters in another database and redrives them.
#[track_caller]
fn imported_letter_keeps_both(exported: &str) {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let path = std::env::temp_dir().join(format!("{}.headers.ndjson", test.name()));
    fs::write(&path, exported).unwrap();
    ran(
        &test,
        &["dlq", "capture", "--file", path.to_str().expect("UTF-8")],
    )
    .exits_with(0);
    fs::remove_file(&path).unwrap();
    let db = queue.database();
    let letters = db.dlq().list(&LetterFilter::new()).unwrap();
    letter_keeps_both(&queue, letters[0].id);

    db.dlq()
        .redrive(&LetterFilter::new(), &Operator::default())
        .unwrap();
    let row = test
        .client()
        .query_one("SELECT headers::text, group_key FROM redrive.jobs", &[])
        .unwrap();
    assert_eq!(json(row.get(0)), json(HEADERS));
    assert_eq!(row.get::<_, &str>(1), GROUP_KEY);
}

#[test]
fn a_capture_rejects_headers_and_group_keys_over_their_limits() {
    let test = TestDatabase::migrated();
    let db = test.open();
    let failure = |position: &str| ForeignFailure::new("kafka", position, "orders", "order", b"{}");
    let headers = |position: &str, count: u32, last: usize| {
        let long = "x".repeat(8000);
        (0..count)
            .fold(failure(position), |failure, n| {
                failure.header(n.to_string(), long.as_str())
            })
            .header("n", "\"".repeat(last))
    };
    // A quotation mark takes two bytes in JSON, so 727 of them end one byte below the limit.
    let fits = headers("1", 8, 727);
    db.dlq().capture(&fits).unwrap();
    let printed: i32 = test
        .client()
        .query_one(
            "SELECT octet_length(headers::text) FROM redrive.dead_letters",
            &[],
        )
        .unwrap()
        .get(0);
    assert_eq!(printed, 65_535);
    let error = db.dlq().capture(&headers("2", 8, 728)).expect_err("65,537");
    assert!(error.is_invalid(), "{error}");
    assert!(error.to_string().contains("the limit is 65536"), "{error}");

    db.dlq()
        .capture(&failure("3").group_key("k".repeat(200)))
        .unwrap();
    for length in [0, 201] {
        let failure = failure("4").group_key("k".repeat(length));
        let error = db.dlq().capture(&failure).expect_err("a wrong length");
        assert!(error.to_string().contains("1 to 200"), "{error}");
    }
}
