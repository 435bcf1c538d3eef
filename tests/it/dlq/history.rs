//! The history of a letter: its size, its attempts and deaths, long messages, redacted texts.

use redrive_tests::prelude::*;

/// Inserts a letter with this history, record by record.
fn remembered(client: &mut Client, records: &[Value]) -> JobId {
    let mut history = json!([]);
    for record in records {
        history = client.ask("SELECT redrive.add_attempt($1, $2)", &[&history, record]);
    }
    let insert = "INSERT INTO redrive.dead_letters
            (queue, kind, cause, error_class, error_message, payload, enqueued_at, history)
        VALUES ('orders', 'order', 'exhausted', 'E', 'x', '{}', now(), $1) RETURNING id";
    JobId::new(client.ask(insert, &[&history]))
}

/// Returns the attempt that a record describes.
fn meant(record: &Value) -> AttemptRecord {
    serde_json::from_value(record.clone()).unwrap()
}

#[test]
fn a_truncated_history_is_read_back_as_written() {
    let (_test, db, mut client) = TestDatabase::with_handle();
    let mut dice = fastrand::Rng::with_seed(3);
    for round in 0..60 {
        let length = dice.u64(1..=45);
        // Identical for long, or different each time, or mostly empty.
        let kinds = [1, 2, 7][dice.usize(..3)];
        let records: Vec<Value> = (1..=length)
            .map(|attempt| {
                let mut record = json!({
                    "attempt": attempt, "generation": dice.u64(..kinds), "pid": dice.u64(..kinds),
                    "outcome": (["failed", "timeout"][dice.usize(..2)]), "run_ms": dice.u64(..1000),
                    "ended_at": format!("2026-11-20T10:00:{:02}.123Z", dice.u64(..60)),
                });
                for key in ["error_class", "error_message", "worker", "host", "version"] {
                    let value = match dice.u64(..6) {
                        0 if kinds > 1 => continue,
                        1 if kinds > 1 => Value::Null,
                        _ => format!("{key} {}", dice.u64(..kinds)).into(),
                    };
                    record[key] = value;
                }
                let fields = record.as_object_mut().expect("an object");
                for key in ["outcome", "ended_at", "pid"] {
                    if dice.u64(..5) == 0 {
                        fields.remove(key);
                    }
                }
                record
            })
            .collect();
        let id = remembered(&mut client, &records);
        let history = db.letter(id).history;
        let kept: Vec<AttemptRecord> = match records.len() {
            0..=20 => records.iter().map(meant).collect(),
            all => {
                let kept = records[..5].iter().chain(&records[all - 15..]);
                kept.map(meant).collect()
            }
        };
        assert_eq!(history, kept, "round {round}: {records:#?}");
    }
}

#[test]
fn the_group_stores_a_long_message_in_full() {
    let (test, mut client) = TestDatabase::with_client();
    let id = scalar(&mut client, "SELECT id FROM redrive.capture('s', '1', 'orders', 'order', 'x',
                 error_message => 'begin ' || repeat('y', 6000) || ' end', error_detail => 'cause')");
    let letter = test.open().letter(JobId::new(id));
    assert!(letter.error_message.len() <= 2048);
    let detail = letter.error_detail.expect("a detail");
    assert!(detail.starts_with("begin yyy") && detail.ends_with(" end\ncause"));
}

#[test]
fn text_removed_by_the_redaction_hook_is_not_stored() {
    let (test, queue) = TestDatabase::with_orders();
    let id = queue.enqueue(&Order { number: 1 }).unwrap();
    let worker = worker(&queue).redact(|text| text.replace("4111", "****"));
    let declined = |_: &Job<Order>| {
        let failure = Failure::reject("card 4111");
        Err(failure.detail("the card was 4111").failure_key("card 4111"))
    };
    finish(&queue, worker.runs(declined));
    let letter = queue.letter(id);
    assert_eq!(letter.error_message, "card ****");
    assert_eq!(letter.error_detail.as_deref(), Some("the card was ****"));
    assert_eq!(letter.failure_key.as_deref(), Some("card ****"));
    let message = letter.history[0].error_message.as_deref();
    assert_eq!(message, Some("card ****"));
    for table in ["dead_letters", "groups", "details"] {
        // A time or a fingerprint may have the digits.
        let rows = test.count(&format!("{table} t WHERE t::text ~ '(card|was) 4111'"));
        assert_eq!(rows, 0, "{table}");
    }
}

#[test]
fn a_history_of_anything_can_be_cut() {
    let (_test, mut client) = TestDatabase::with_client();
    let cut = r#"SELECT redrive.cut_history('[1, "x", null, true, {}, [], {}, 2, [1], "host", {"host": "a"}]', 5)"#;
    let cut: Value = client.ask(cut, &[]);
    assert_eq!(cut, json!([1, "x", null, true, {}]));
}

#[test]
fn a_record_with_any_time_can_be_shortened() {
    let (test, mut client) = TestDatabase::with_client();
    let record = json!({"attempt": 1, "run_ms": 5, "ended_at": "long ago"});
    let id = remembered(&mut client, &[record.clone(), record]);
    let history = test.open().letter(id).history;
    assert_eq!(history[0].ended_at.as_deref(), Some("long ago"));
}

#[test]
fn a_lost_worker_gets_no_error_of_a_later_generation() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    // A cancelled job whose worker was lost: its letter has no attempt, but its history has one.
    let lost = json!({"generation": 0, "attempt": 1, "outcome": "worker_lost", "worker": null,
                      "host": "a", "version": "1", "pid": 7, "ended_at": "2026-11-22T10:00:00.123Z"});
    let id = remembered(&mut client, &[lost]);
    queue.redrives(&only(id));
    // Its payload is no order, so it dies again.
    finish(&queue, willing(&queue));
    let letter = queue.letter(id);
    let expected = [(0, "worker_lost"), (1, "undecodable")];
    assert_eq!(outcomes(&letter), expected);
    let lost = &letter.history[0];
    assert_eq!((&lost.error_class, &lost.error_message), (&None, &None));
}
