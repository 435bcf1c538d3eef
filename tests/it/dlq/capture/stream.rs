//! The example of a stream consumer.

use redrive_tests::prelude::*;

#[expect(dead_code, reason = "the test does not call its main")]
#[path = "../../../../crates/redrive/examples/stream_consumer.rs"]
mod stream_consumer;

#[test]
fn a_stream_consumer_loses_no_event_and_captures_none_twice() {
    let (_test, db) = TestDatabase::opened();
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
        let consumed = stream_consumer::consume(&log[..], "log:orders", from, &db);
        let consumed = consumed.unwrap();
        (consumed.processed, consumed.captured, consumed.next_offset)
    };
    assert_eq!(consume(0), (240, 10, 250));
    // It was killed before it committed its offset, and repeats the last batch.
    assert_eq!(consume(200), (48, 2, 250));
    assert_eq!(consume(250), (0, 0, 250));
    let found = db.listed(&of_orders());
    assert_eq!(found.len(), 10);
    let refused = found.iter().filter(|it| it.error_class == "OrderRefused");
    assert_eq!(refused.count(), 5);
    let mut odd = found.iter().filter(|it| it.error_class == "Undecodable");
    assert_eq!(odd.clone().count(), 5);
    let odd = odd.find(|letter| letter.position.as_deref() == Some("57"));
    let odd = odd.expect("the event at this offset");
    assert_eq!(odd.raw.as_deref(), Some(&b"{\"order\": \xff"[..]));
    // Edited and valid, it is an ordinary job.
    let set = Edit::set(r#"{"order": 57, "cents": 100}"#).unwrap();
    db.edits(&only(odd.id), &set);
    let redriven = db.redrives(&only(odd.id));
    assert_eq!(redriven.redriven, [odd.id]);
}
