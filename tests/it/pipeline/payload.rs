//! Payloads: stored unchanged, or rejected.

use redrive::dlq::{DeathCause, LetterFilter};
use redrive::{Job, NewJob, Payload};
use redrive_tests::{Begin, Dead, Order, TestDatabase, drained, put, stop, worker};

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
fn a_payload_nested_too_deep_to_decode_is_dead_lettered() {
    let (_test, queue) = TestDatabase::with_orders();
    let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    let id = put(&queue, NewJob::raw("value", &deep).unwrap());
    let worker = worker(&queue)
        .handle(|_: &Job<Value>| Ok(()))
        .runs(|_: &Job<Order>| Ok(()));
    queue.enqueue(&Order { number: 1 }).unwrap();
    drained(&queue);
    assert_eq!(stop(worker).stats.done, 1);
    let letters = queue.listed(&LetterFilter::new());
    assert_eq!(
        (letters.len(), letters[0].id, letters[0].cause),
        (1, id, DeathCause::Undecodable)
    );
    assert_eq!(letters[0].payload.as_ref().expect("JSON").get(), deep);
}
