//! Deadlines: the job of a handler that exceeds its deadline is judged while the handler still runs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive::{HandlerOptions, Job, NewJob};
use redrive_tests::{Gate, Hold, Order, SOON, TestDatabase, counted, stop, wait_until, worker};

#[test]
fn a_handler_that_exceeds_its_deadline_times_out_while_it_runs() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let gate = Gate::new();
    let cancelled = Arc::new(Mutex::new(None));
    let worker = worker(&queue)
        .handle_with(HandlerOptions::new().deadline(Duration::from_millis(10)), {
            let (gate, cancelled) = (gate.clone(), Arc::clone(&cancelled));
            move |job: &Job<Hold>| {
                gate.pass();
                *cancelled.lock().unwrap() = Some(job.is_cancelled());
                Ok(())
            }
        })
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    let slow = queue
        .enqueue_job(NewJob::new(&Hold {}).unwrap().max_attempts(1))
        .unwrap()
        .id();
    gate.wait_for(1);
    counted(&worker, "one death", |counts| counts.dead == 1);
    let letter = queue.database().dlq().get(slow).unwrap().expect("a letter");
    assert_eq!(letter.cause.as_str(), "timeout");
    assert!(
        letter.error_message.contains("deadline of 10ms"),
        "{}",
        letter.error_message
    );

    // The handler occupies the only slot; a new one replaces it.
    queue.enqueue(&Order { number: 1 }).unwrap();
    counted(&worker, "the next job to be done", |counts| {
        counts.done == 1
    });

    gate.open();
    wait_until("the handler to go on", SOON, || {
        cancelled.lock().unwrap().is_some()
    });
    assert_eq!(
        *cancelled.lock().unwrap(),
        Some(true),
        "it sees the timeout"
    );
    let counts = stop(worker).stats;
    assert_eq!(
        (counts.done, counts.dead),
        (1, 1),
        "its late success is refused"
    );
    let letter = queue.database().dlq().get(slow).unwrap().expect("a letter");
    assert_eq!(letter.state.as_str(), "open");
}

#[test]
fn a_timeout_is_retried_like_other_failures() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let gate = Gate::new();
    let worker = worker(&queue)
        .slots(2)
        .handle_with(HandlerOptions::new().deadline(Duration::from_secs(1)), {
            let gate = gate.clone();
            move |job: &Job<Hold>| {
                if job.attempt() == 1 {
                    gate.pass();
                }
                Ok(())
            }
        })
        .start()
        .unwrap();
    queue.enqueue(&Hold {}).unwrap();
    counted(&worker, "a retry, and then success", |counts| {
        counts.retried == 1 && counts.done == 1
    });
    gate.open();
    assert_eq!(stop(worker).stats.dead, 0);
    assert!(queue.is_drained().unwrap());
}
