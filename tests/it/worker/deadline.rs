//! Deadlines: the job of a handler that exceeds its deadline is judged while the handler still runs.

use redrive_tests::prelude::*;

#[test]
fn a_handler_that_exceeds_its_deadline_times_out_while_it_runs_and_leaves_only_its_checkpoint() {
    let (_test, queue) = TestDatabase::with_orders();
    let (gate, cancelled) = (kept::<Gate>(), kept::<AtomicBool>());
    let builder = worker(&queue).handle(move |job: &Job<Hold>| {
        job.checkpoint(&"half")?;
        job.then_in_queue("next", NewJob::new(&Hold {})?)?;
        gate.pass();
        cancelled.store(job.is_cancelled(), Ordering::SeqCst);
        Ok(())
    });
    let soon = HandlerOptions::new().deadline(Duration::from_millis(10));
    let worker = builder.options(soon).runs(|_: &Job<Order>| Ok(()));
    let slow = put(&queue, NewJob::new(&Hold {}).unwrap().max_attempts(1));
    gate.wait_for(1);
    died(&worker, 1);
    let letter = queue.letter(slow);
    assert_eq!(letter.cause.as_str(), "timeout");
    has(&letter.error_message, "deadline of 10ms");
    let headers = letter.headers.expect("headers");
    assert_eq!(headers.get(), r#"{"redrive-checkpoint": "\"half\""}"#);

    // The handler occupies the only slot; a new one replaces it.
    queue.enqueue(&Order { number: 1 }).unwrap();
    done(&worker, 1);

    gate.open();
    // It sees the timeout, and its late success is refused.
    wait_until("the handler to continue", SOON, || {
        cancelled.load(Ordering::SeqCst)
    });
    let counts = stop(worker).stats;
    assert_eq!((counts.done, counts.dead), (1, 1));
    assert_eq!(queue.letter(slow).state.as_str(), "open");
    assert!(stats(queue.database(), "next").is_none(), "no follow-up");
}
