//! The job of a captured failure carries headers, source, and on request the unchanged bytes.

use redrive_tests::prelude::*;

/// JSON that `jsonb` stores in another form.
const RAW: &[u8] = br#"{"number":1,  "b":1.00,"a":1,"a":2}"#;

#[test]
fn the_job_of_a_captured_failure_carries_headers_source_and_bytes() {
    let (test, queue) = TestDatabase::with_orders();
    let long = "p".repeat(600);
    let event = |position: &str| {
        ForeignFailure::new("kafka:orders", position, "orders", "order", RAW).header("trace", "abc")
    };
    let short = queue.captures(&event("3/17"));
    queue.captures(&event(&long));
    let (tell, seen) = mpsc::channel();
    let (own, client) = (queue.database().clone(), Mutex::new(test.client()));
    let working = worker(&queue).runs(move |job: &Job<Order>| {
        let ask = "SELECT headers ->> 'trace', headers ->> 'redrive-source', headers ->> 'redrive-position' \
                   FROM redrive.live_jobs WHERE id = $1";
        let row = client.lock().unwrap().query_one(ask, &[&job.id().get()])?;
        let headers = [0, 1, 2].map(|n: usize| row.get::<_, Option<String>>(n));
        tell.send((headers, own.dlq().captured_bytes(job.id())?)).unwrap();
        Err(Failure::reject("broken"))
    });
    // The second life of a letter carries the same.
    for _ in 0..2 {
        queue.redrives(&LetterFilter::new());
        drained(&queue);
    }
    stop(working);
    let seen: Vec<_> = seen.try_iter().collect();
    assert_eq!(seen.len(), 4);
    for ([trace, source, position], raw) in seen {
        assert_eq!(trace.as_deref(), Some("abc"));
        assert_eq!(source.as_deref(), Some("kafka:orders"));
        let position = position.as_deref().expect("a position");
        assert!(position == "3/17" || position == long, "{position}");
        assert_eq!(raw.as_deref(), Some(RAW));
    }
    assert_eq!(shown_raw(&test, short), RAW);
}
