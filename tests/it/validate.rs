//! Validate: what would pass and what would not, without side effects.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redrive::{Captured, Job, JobId, Letter, LetterState, Letters, Queue, Validators};
use redrive_cli::Program;
use redrive_tests::{Order, TestDatabase, letters, letters_in, ran, ran_by, stats};
use serde_json::json;

/// Letters of the queue, and a payload that is no order in each of these.
fn broken(test: &TestDatabase, queue: &Queue, count: i64, which: &[usize]) -> Vec<JobId> {
    let ids = letters(queue, count);
    let broken: Vec<i64> = which.iter().map(|index| ids[*index].get()).collect();
    let spoil = r#"UPDATE redrive.dead_letters SET payload = '{"nummer": 1}' WHERE id = ANY ($1)"#;
    test.client().execute(spoil, &[&broken]).unwrap();
    ids
}

#[test]
fn what_would_pass_is_told_and_what_fails_is_put_together() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = broken(&test, &queue, 43, &[0, 7]);
    let db = queue.database();
    let validators = Validators::new().check(|order: &Order| match order.number {
        ..=20 => Ok(()),
        number => Err(format!("order {number} is over the limit")),
    });
    let found = db.validate(&Letters::queue("orders"), &validators).unwrap();
    assert_eq!((found.passed, found.failed, found.unchecked), (18, 25, 0));
    let [limit, field] = &found.complaints[..] else {
        panic!("two complaints: {:?}", found.complaints)
    };
    assert_eq!(
        (&*limit.what, &*limit.sample, limit.letters),
        (
            "order ? is over the limit",
            "order 21 is over the limit",
            23
        )
    );
    assert_eq!(limit.ids, ids[20..25]);
    assert!(field.sample.contains("missing field"), "{}", field.sample);
    assert_eq!(field.ids, [ids[0], ids[7]]);

    let one = db
        .validate(
            &Letters::ids([ids[7]]),
            &Validators::new().decodes::<Order>(),
        )
        .unwrap();
    assert_eq!((one.passed, one.failed), (0, 1));
    let limited = Letters::queue("orders").limit(5);
    let some = db.validate(&limited, &validators).unwrap();
    assert_eq!(some.passed + some.failed, 5);
}

#[test]
fn no_handler_runs_and_nothing_changes() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    letters(&queue, 12);
    let before = test.client().query_one(
        "SELECT sum(hashtext(l::text)) FROM redrive.dead_letters l",
        &[],
    );
    let (handled, checked) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (handle, check) = (Arc::clone(&handled), Arc::clone(&checked));
    let program = Program::new("shop")
        .handle(move |_: &Job<Order>| {
            handle.fetch_add(1, Ordering::SeqCst);
            Ok(())
        })
        .validate(move |_: &Order| {
            check.fetch_add(1, Ordering::SeqCst);
            Ok::<(), String>(())
        });
    let told = ran_by(&program, &test, &["dlq", "validate", "orders"]).exits_with(0);
    assert_eq!(told.out, "12 would pass, 0 fail\n");
    assert_eq!(handled.load(Ordering::SeqCst), 0);
    assert_eq!(checked.load(Ordering::SeqCst), 12);
    let after = test.client().query_one(
        "SELECT sum(hashtext(l::text)) FROM redrive.dead_letters l",
        &[],
    );
    assert_eq!(
        before.unwrap().get::<_, i64>(0),
        after.unwrap().get::<_, i64>(0)
    );
    // The same program does run its handler when it is asked to work.
    ran(&test, &["dlq", "redrive", "orders", "--yes"]).exits_with(0);
    ran_by(&program, &test, &["work", "orders", "--drain"]).exits_with(0);
    assert_eq!(handled.load(Ordering::SeqCst), 12);
    assert_eq!(checked.load(Ordering::SeqCst), 12);
}

#[test]
fn a_validator_that_panics_fails_the_letter_and_not_the_program() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = letters(&queue, 3);
    let validators = Validators::new().check(|order: &Order| {
        assert!(order.number != 2, "cannot bear order 2");
        Ok::<(), String>(())
    });
    let found = queue
        .database()
        .validate(&Letters::queue("orders"), &validators)
        .unwrap();
    assert_eq!((found.passed, found.failed), (2, 1));
    assert_eq!(found.complaints[0].ids, [ids[1]]);
    assert!(
        found.complaints[0].sample.contains("cannot bear order 2"),
        "{:?}",
        found.complaints
    );
}

#[test]
fn captured_bytes_and_kinds_without_a_validator_are_told_apart() {
    let test = TestDatabase::migrated();
    let db = test.open();
    for (position, kind, raw) in [
        ("1", "order", &b"{\"number\": 1}"[..]),
        ("2", "order", b"{\"number\": "),
        ("3", "other", b"\xff"),
    ] {
        let event = Captured::new("kafka", position, "orders", kind, raw);
        db.capture(&event).unwrap();
    }
    let validators = Validators::new().decodes::<Order>();
    let found = db.validate(&Letters::queue("orders"), &validators).unwrap();
    assert_eq!((found.passed, found.failed, found.unchecked), (1, 1, 1));
    assert!(found.complaints[0].what.contains("not JSON"));
    let whole = validators.kind("other", |letter: &Letter| match &letter.raw {
        Some(raw) if raw == b"\xff" => Ok(()),
        _ => Err("other bytes"),
    });
    let found = db.validate(&Letters::queue("orders"), &whole).unwrap();
    assert_eq!((found.passed, found.failed, found.unchecked), (2, 1, 0));
}

#[test]
fn every_letter_of_many_pages_is_looked_at_once() {
    let test = TestDatabase::migrated();
    let db = test.open();
    let events: Vec<Captured> = (0..2500)
        .map(|n| {
            let raw = format!("{{\"number\": {n}}}");
            Captured::new("kafka", n.to_string(), "orders", "order", raw)
        })
        .collect();
    db.capture_many(&events).unwrap();
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let look = Arc::clone(&seen);
    let validators = Validators::new().check(move |order: &Order| {
        look.lock().expect("no panic").push(order.number);
        Ok::<(), String>(())
    });
    let found = db.validate(&Letters::all(), &validators).unwrap();
    assert_eq!(found.passed, 2500);
    let mut seen = seen.lock().expect("no panic").clone();
    seen.sort_unstable();
    assert_eq!(seen, (0..2500).collect::<Vec<i64>>());
}

#[test]
fn a_schema_says_what_would_pass() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = broken(&test, &queue, 9, &[2, 5]);
    let file = std::env::temp_dir().join(format!("{}.schema.json", test.name()));
    let schema = json!({
        "type": "object", "required": ["number"],
        "properties": { "number": { "type": "integer", "maximum": 8 } },
    });
    fs::write(&file, schema.to_string()).unwrap();
    let path = file.to_str().expect("a path in UTF-8");
    let told = ran(&test, &["dlq", "validate", "orders", "--schema", path]).exits_with(1);
    assert!(
        told.out.starts_with("6 would pass, 3 fail\n") && told.out.contains("/number: "),
        "{}",
        told.out
    );
    let told = ran(
        &test,
        &["dlq", "validate", "orders", "--schema", path, "--json"],
    )
    .exits_with(1);
    let line = told.lines().remove(0);
    assert_eq!((&line["passed"], &line["failed"]), (&json!(6), &json!(3)));
    let all: Vec<&serde_json::Value> = line["complaints"].as_array().unwrap().iter().collect();
    let missing = all.iter().find(|one| one["letters"] == 2).unwrap();
    assert_eq!(missing["ids"], json!([ids[2].get(), ids[5].get()]));
    ran(
        &test,
        &[
            "dlq",
            "validate",
            "--id",
            &ids[0].to_string(),
            "--schema",
            path,
        ],
    )
    .exits_with(0);

    fs::write(&file, r#"{"type": "nothing"}"#).unwrap();
    let told = ran(&test, &["dlq", "validate", "orders", "--schema", path]).exits_with(2);
    assert!(told.err.contains("not a JSON Schema"), "{}", told.err);
    fs::remove_file(&file).unwrap();
    ran(&test, &["dlq", "validate", "orders", "--schema", path]).exits_with(2);
}

#[test]
fn a_command_says_what_would_pass() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    letters(&queue, 4);
    let check = r#"grep -q '"number": [12]}' || { echo "no good: $REDRIVE_KIND $REDRIVE_REASON" >&2; exit 9; }"#;
    let told = ran(&test, &["dlq", "validate", "orders", "--exec", check]).exits_with(1);
    assert!(
        told.out.starts_with("2 would pass, 2 fail\n")
            && told.out.contains("no good: order rejected"),
        "{}",
        told.out
    );
    let told = ran(&test, &["dlq", "validate", "orders"]).exits_with(2);
    assert!(told.err.contains("nothing to check by"), "{}", told.err);
    ran(&test, &["dlq", "validate", "nobody", "--exec", "true"]).exits_with(1);
    assert_eq!(letters_in(queue.database(), "orders", LetterState::Open), 4);
    assert_eq!(stats(queue.database(), "orders").expect("letters").open, 4);
}
