//! The job of a captured failure carries headers, source, and on request the unchanged bytes.

use std::sync::{Arc, Mutex};

use redrive::dlq::{ForeignFailure, LetterFilter};
use redrive::{Failure, Job, Operator};
use redrive_tests::{Order, TestDatabase, drained, ran, stop, worker};

/// JSON that `jsonb` stores in another form.
const RAW: &[u8] = br#"{"number":1,  "b":1.00,"a":1,"a":2}"#;

#[test]
fn the_job_of_a_captured_failure_carries_headers_source_and_bytes() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
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
    let working = worker(&queue).handle(handler).start().unwrap();
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

#[test]
fn headers_that_leave_no_room_are_carried_alone() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let mut event = ForeignFailure::new("kafka", "1", "orders", "order", RAW);
    for n in 0..8 {
        event = event.header(n.to_string(), "x".repeat(8180));
    }
    let id = db.dlq().capture(&event).unwrap().id();
    assert_eq!(
        db.dlq()
            .redrive(&LetterFilter::new(), &Operator::default())
            .unwrap()
            .redriven,
        [id]
    );
    let row = test
        .client()
        .query_one(
            "SELECT headers ? '7', headers ? 'redrive-source' FROM redrive.jobs",
            &[],
        )
        .unwrap();
    assert_eq!((row.get(0), row.get(1)), (true, false));
}

#[test]
fn a_letter_without_captured_bytes_has_none_to_show() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let id = redrive_tests::letters(&queue, 1)[0].to_string();
    ran(&test, &["dlq", "show", &id, "--raw"]).exits_with(1);
    ran(&test, &["dlq", "show", "999", "--raw"]).exits_with(1);
}
