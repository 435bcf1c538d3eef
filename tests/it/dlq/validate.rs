//! Validation of letters, without side effects.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redrive::dlq::{ForeignFailure, Letter, LetterFilter, LetterState, Validators};
use redrive::{Job, JobId, Queue};
use redrive_cli::Program;
use redrive_tests::{Order, TestDatabase, letters, letters_in, ran, ran_by, stats};
use serde_json::json;

/// Makes letters, some of them with a payload that is not an order.
fn broken(test: &TestDatabase, queue: &Queue, count: i64, indexes: &[usize]) -> Vec<JobId> {
    let ids = letters(queue, count);
    let broken: Vec<i64> = indexes.iter().map(|index| ids[*index].get()).collect();
    let spoil = r#"UPDATE redrive.dead_letters SET payload = '{"nummer": 1}' WHERE id = ANY ($1)"#;
    test.client().execute(spoil, &[&broken]).unwrap();
    ids
}

#[test]
fn validation_counts_passing_letters_and_groups_failing_ones() {
    let (test, queue) = TestDatabase::with_orders();
    let ids = broken(&test, &queue, 43, &[0, 7]);
    let db = queue.database();
    let validators = Validators::new().check(|order: &Order| match order.number {
        ..=20 => Ok(()),
        number => Err(format!("order {number} is over the limit")),
    });
    let found = db
        .dlq()
        .validate(&LetterFilter::new().queue("orders"), &validators)
        .unwrap();
    assert_eq!((found.passed, found.failed, found.unchecked), (18, 25, 0));
    let [limit, field] = &found.errors[..] else {
        panic!("two errors: {:?}", found.errors)
    };
    assert_eq!(
        (&*limit.message, &*limit.sample, limit.letters),
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
        .dlq()
        .validate(
            &LetterFilter::new().ids([ids[7]]),
            &Validators::new().decodes::<Order>(),
        )
        .unwrap();
    assert_eq!((one.passed, one.failed), (0, 1));
    let limited = LetterFilter::new().queue("orders").limit(5);
    let some = db.dlq().validate(&limited, &validators).unwrap();
    assert_eq!(some.passed + some.failed, 5);
}

#[test]
fn validation_runs_no_handler_and_changes_nothing() {
    let (test, queue) = TestDatabase::with_orders();
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
    let output = ran_by(&program, &test, &["dlq", "validate", "orders"]).exits_with(0);
    assert_eq!(output.out, "12 would pass, 0 fail\n");
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
    // The same program does run its handler when it works.
    ran(&test, &["dlq", "redrive", "orders", "--yes"]).exits_with(0);
    ran_by(&program, &test, &["work", "orders", "--drain"]).exits_with(0);
    assert_eq!(handled.load(Ordering::SeqCst), 12);
    assert_eq!(checked.load(Ordering::SeqCst), 12);
}

#[test]
fn a_validator_that_panics_fails_only_its_letter() {
    let (_test, queue) = TestDatabase::with_orders();
    let ids = letters(&queue, 3);
    let validators = Validators::new().check(|order: &Order| {
        assert!(order.number != 2, "cannot bear order 2");
        Ok::<(), String>(())
    });
    let found = queue
        .database()
        .dlq()
        .validate(&LetterFilter::new().queue("orders"), &validators)
        .unwrap();
    assert_eq!((found.passed, found.failed), (2, 1));
    assert_eq!(found.errors[0].ids, [ids[1]]);
    assert!(
        found.errors[0].sample.contains("cannot bear order 2"),
        "{:?}",
        found.errors
    );
}

#[test]
fn captured_bytes_and_kinds_without_a_validator_are_reported_separately() {
    let (_test, db) = TestDatabase::opened();
    for (position, kind, raw) in [
        ("1", "order", &b"{\"number\": 1}"[..]),
        ("2", "order", b"{\"number\": "),
        ("3", "other", b"\xff"),
    ] {
        let event = ForeignFailure::new("kafka", position, "orders", kind, raw);
        db.dlq().capture(&event).unwrap();
    }
    let validators = Validators::new().decodes::<Order>();
    let found = db
        .dlq()
        .validate(&LetterFilter::new().queue("orders"), &validators)
        .unwrap();
    assert_eq!((found.passed, found.failed, found.unchecked), (1, 1, 1));
    assert!(found.errors[0].message.contains("not JSON"));
    let whole = validators.kind("other", |letter: &Letter| match &letter.raw {
        Some(raw) if raw == b"\xff" => Ok(()),
        _ => Err("other bytes"),
    });
    let found = db
        .dlq()
        .validate(&LetterFilter::new().queue("orders"), &whole)
        .unwrap();
    assert_eq!((found.passed, found.failed, found.unchecked), (2, 1, 0));
}

#[test]
fn validation_checks_every_letter_of_many_pages_once() {
    let (_test, db) = TestDatabase::opened();
    let events: Vec<ForeignFailure> = (0..2500)
        .map(|n| {
            let raw = format!("{{\"number\": {n}}}");
            ForeignFailure::new("kafka", n.to_string(), "orders", "order", raw)
        })
        .collect();
    db.dlq().capture_many(&events).unwrap();
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let look = Arc::clone(&seen);
    let validators = Validators::new().check(move |order: &Order| {
        look.lock().expect("no panic").push(order.number);
        Ok::<(), String>(())
    });
    let found = db
        .dlq()
        .validate(&LetterFilter::new(), &validators)
        .unwrap();
    assert_eq!(found.passed, 2500);
    let mut seen = seen.lock().expect("no panic").clone();
    seen.sort_unstable();
    assert_eq!(seen, (0..2500).collect::<Vec<i64>>());
}

#[test]
fn a_json_schema_validates_letters() {
    let (test, queue) = TestDatabase::with_orders();
    let ids = broken(&test, &queue, 9, &[2, 5]);
    let file = std::env::temp_dir().join(format!("{}.schema.json", test.name()));
    let schema = json!({
        "type": "object", "required": ["number"],
        "properties": { "number": { "type": "integer", "maximum": 8 } },
    });
    fs::write(&file, schema.to_string()).unwrap();
    let path = file.to_str().expect("a path in UTF-8");
    let output = ran(&test, &["dlq", "validate", "orders", "--schema", path]).exits_with(1);
    assert!(
        output.out.starts_with("6 would pass, 3 fail\n") && output.out.contains("/number: "),
        "{}",
        output.out
    );
    let output = ran(
        &test,
        &["dlq", "validate", "orders", "--schema", path, "--json"],
    )
    .exits_with(1);
    let line = output.lines().remove(0);
    assert_eq!((&line["passed"], &line["failed"]), (&json!(6), &json!(3)));
    let all: Vec<&serde_json::Value> = line["errors"].as_array().unwrap().iter().collect();
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
    let output = ran(&test, &["dlq", "validate", "orders", "--schema", path]).exits_with(2);
    assert!(output.err.contains("not a JSON Schema"), "{}", output.err);
    fs::remove_file(&file).unwrap();
    ran(&test, &["dlq", "validate", "orders", "--schema", path]).exits_with(2);
}

#[test]
fn a_command_validates_letters() {
    let (test, queue) = TestDatabase::with_orders();
    letters(&queue, 4);
    let check = r#"grep -q '"number":[12]}' || { echo "no good: $REDRIVE_KIND $REDRIVE_CAUSE" >&2; exit 9; }"#;
    let output = ran(&test, &["dlq", "validate", "orders", "--exec", check]).exits_with(1);
    assert!(
        output.out.starts_with("2 would pass, 2 fail\n")
            && output.out.contains("no good: order rejected"),
        "{}",
        output.out
    );
    let output = ran(&test, &["dlq", "validate", "orders"]).exits_with(2);
    assert!(output.err.contains("no validator"), "{}", output.err);
    ran(&test, &["dlq", "validate", "nobody", "--exec", "true"]).exits_with(1);
    assert_eq!(letters_in(queue.database(), "orders", LetterState::Open), 4);
    assert_eq!(stats(queue.database(), "orders").expect("letters").open, 4);
}
