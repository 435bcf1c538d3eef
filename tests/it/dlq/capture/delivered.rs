//! The job of a captured failure carries headers, source, and on request the unchanged bytes.

use std::sync::{Arc, Mutex};

use redrive::dlq::{ForeignFailure, LetterFilter};
use redrive::{Failure, Job, Operator};
use redrive_tests::{Begin, Order, TestDatabase, drained, stop, worker};

/// JSON that `jsonb` stores in another form.
const RAW: &[u8] = br#"{"number":1,  "b":1.00,"a":1,"a":2}"#;

#[test]
fn the_job_of_a_captured_failure_carries_headers_source_and_bytes() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database().clone();
    let long = "p".repeat(600);
    let event = |position: &str| {
        ForeignFailure::new("kafka:orders", position, "orders", "order", RAW).header("trace", "abc")
    };
    let short = db.dlq().capture(&event("3/17")).unwrap().id();
    db.dlq().capture(&event(&long)).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let handler = {
        let (db, seen) = (db.clone(), Arc::clone(&seen));
        let client = Mutex::new(test.client());
        move |job: &Job<Order>| {
            let ask = "SELECT headers ->> 'trace', headers ->> 'redrive-source', headers ->> 'redrive-position' \
                       FROM redrive.live_jobs WHERE id = $1";
            let row = client.lock().unwrap().query_one(ask, &[&job.id().get()])?;
            let header = |n: usize| row.get::<_, Option<String>>(n);
            let raw = db.dlq().captured_bytes(job.id())?;
            seen.lock()
                .unwrap()
                .push((header(0), header(1), header(2), raw));
            Err(Failure::reject("broken"))
        }
    };
    let working = worker(&queue).handle(handler).started();
    // The second life of a letter carries the same.
    for _ in 0..2 {
        db.dlq()
            .redrive(&LetterFilter::new(), &Operator::default())
            .unwrap();
        drained(&queue);
    }
    stop(working);
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 4);
    for (trace, source, position, raw) in seen.iter() {
        assert_eq!(trace.as_deref(), Some("abc"));
        assert_eq!(source.as_deref(), Some("kafka:orders"));
        let position = position.as_deref().expect("a position");
        assert!(position == "3/17" || position == long, "{position}");
        assert_eq!(raw.as_deref(), Some(RAW));
    }
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let id = short.to_string();
    let command = [
        "redrive",
        "--database-url",
        test.url(),
        "dlq",
        "show",
        &id,
        "--raw",
    ];
    let ended = redrive_cli::run(command.map(Into::into), &mut out, &mut err);
    assert_eq!(ended, std::process::ExitCode::SUCCESS);
    assert_eq!(out, RAW);
}
