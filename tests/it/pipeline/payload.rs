//! Payloads: stored unchanged, or rejected.

use std::sync::{Arc, Mutex};

use redrive::admin::Cancelled;
use redrive::dlq::{DeathCause, LetterFilter};
use redrive::limits::MAX_PAYLOAD_BYTES;
use redrive::{Failure, Job, JobId, NewJob, Payload};
use redrive_tests::{Order, TestDatabase, drained, stop, worker};
use serde_json::value::RawValue;

/// Any JSON value.
struct Value(#[expect(dead_code, reason = "it is only decoded")] serde_json::Value);

impl serde::Serialize for Value {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_unit()
    }
}

impl<'de> serde::Deserialize<'de> for Value {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
        serde_json::Value::deserialize(from).map(Value)
    }
}

impl Payload for Value {
    const KIND: &'static str = "value";
}

#[test]
fn a_payload_that_jsonb_rejects_is_rejected_by_the_library() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    for (bad, why) in [
        (r#"{"a": "\u0000"}"#, "NUL"),
        (r#""\ud800""#, "surrogate"),
        ("{broken", "not JSON"),
        ("", "not JSON"),
        ("1e99999999", "exponent"),
        (&format!("0.{}", "1".repeat(20_000)), "digits"),
    ] {
        let error = NewJob::raw("order", bad).expect_err(bad);
        assert!(
            error.is_invalid() && error.to_string().contains(why),
            "{bad}: {error}"
        );
    }
    assert!(
        NewJob::raw("order", &format!("\"{}\"", "x".repeat(MAX_PAYLOAD_BYTES)))
            .expect_err("too long")
            .is_invalid()
    );
    assert!(queue.is_drained().unwrap());
}

#[test]
fn odd_payloads_reach_the_handler_unchanged() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let biggest = format!("\"{}\"", "x".repeat(MAX_PAYLOAD_BYTES - 2));
    let odd = [
        "null",
        "0",
        r#""""#,
        "[]",
        r#"{"": [null]}"#,
        r#"{"b":  1.50, "a": 1e2, "b": -0}"#,
        r#""\ud83d\ude00 é 日本 \\u0000""#,
        "-0.000000000000000000000000000000000001",
        "99999999999999999999999999999999999999",
        &biggest,
    ];
    let got = Arc::new(Mutex::new(Vec::new()));
    let worker = worker(&queue)
        .handle_any({
            let got = Arc::clone(&got);
            move |job: &Job<Box<RawValue>>| {
                got.lock().unwrap().push(job.payload().get().to_owned());
                Ok(())
            }
        })
        .start()
        .unwrap();
    for payload in odd {
        queue
            .enqueue_job(NewJob::raw("odd", payload).unwrap())
            .unwrap_or_else(|error| panic!("{payload}: {error:?}"));
        drained(&queue);
    }
    stop(worker);
    let got = got.lock().unwrap();
    assert_eq!(got.len(), odd.len());
    for (sent, came) in odd.iter().zip(&*got) {
        assert!(sent == came, "{sent} came as {came}");
    }
}

/// The library rejects this payload, but a role with the right to INSERT can store it.
#[test]
fn a_payload_that_jsonb_cannot_hold_becomes_a_letter_as_it_came() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let payload = r#"{"a": "\u0000"}"#;
    let store = |id: i64| {
        let sql = "INSERT INTO redrive.jobs (id, segment, queue, kind, payload, generation) \
                   SELECT $1, r.segment, 'orders', 'odd', $2::text::json, 1 FROM redrive.ring r";
        test.client().execute(sql, &[&id, &payload]).unwrap();
        // The letter of an earlier death has another payload.
        let letter = "INSERT INTO redrive.dead_letters (id, queue, kind, state, cause, error_class, error_message, \
                      payload, group_id, enqueued_at) \
                      SELECT id, queue, kind, 'redriving', 'rejected', 'E', 'e', '{}', 1, enqueued_at \
                      FROM redrive.jobs WHERE id = $1";
        test.client().execute(letter, &[&id]).unwrap();
    };
    store(-1);
    assert_eq!(db.admin().cancel(JobId::new(-1)).unwrap(), Cancelled::Dead);
    store(-2);
    // One statement settles this job too.
    queue.enqueue(&Order { number: 1 }).unwrap();
    let worker = worker(&queue)
        .handle_any(|_: &Job<Box<RawValue>>| Err(Failure::reject("no")))
        .start()
        .unwrap();
    drained(&queue);
    stop(worker);
    let mut letters = db.dlq().list(&LetterFilter::new()).unwrap();
    letters.sort_by_key(|letter| letter.id);
    let kept: Vec<_> = letters
        .iter()
        .map(|letter| letter.payload.as_deref().map(RawValue::get))
        .collect();
    assert_eq!(
        kept,
        [Some(payload), Some(payload), Some(r#"{"number":1}"#)]
    );
}

#[test]
fn a_payload_nested_too_deep_to_decode_is_dead_lettered() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    let id = queue
        .enqueue_job(NewJob::raw("value", &deep).unwrap())
        .unwrap()
        .id();
    let worker = worker(&queue)
        .handle(|_: &Job<Value>| Ok(()))
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    queue.enqueue(&Order { number: 1 }).unwrap();
    drained(&queue);
    assert_eq!(stop(worker).stats.done, 1);
    let letters = queue.database().dlq().list(&LetterFilter::new()).unwrap();
    assert_eq!(
        (letters.len(), letters[0].id, letters[0].cause),
        (1, id, DeathCause::Undecodable)
    );
    assert_eq!(letters[0].payload.as_ref().expect("JSON").get(), deep);
}
