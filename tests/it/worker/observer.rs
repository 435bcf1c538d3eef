//! The hook that sees every attempt.

use std::num::ParseIntError;

use redrive::worker::{Attempt, AttemptOutcome};
use redrive_tests::prelude::*;

fn end(number: i64) -> Result<(), Failure> {
    match number {
        1 => Err("x".parse::<i32>().expect_err("no number"))?,
        2 => Err(Failure::reject("card 4111")),
        3 => Err(Failure::snooze(HOUR)),
        4 => Err(Failure::outage("away")),
        5 => panic!("out of order"),
        _ => Ok(()),
    }
}

/// Handlers of every kind.
fn handlers(builder: WorkerBuilder) -> WorkerBuilder {
    builder
        .handle(|job: &Job<Order>| end(job.payload().number))
        .handle(|job: &Job<Finish>, _: &mut Transaction<'_>| end(job.attempt().into()))
        .handle_batch(BatchOptions::new(9), |batch: &Batch<Hold>| {
            for job in batch.jobs() {
                job.done();
            }
            Ok(())
        })
}

#[test]
fn a_hook_sees_the_outcome_and_the_error_of_every_attempt() {
    type Seen = (String, AttemptOutcome, Option<String>, bool);
    let (_test, queue) = TestDatabase::with_orders();
    let (tell, seen) = mpsc::channel();
    let hook = move |attempt: &Attempt| {
        let error = attempt.error();
        let is_parse = matches!(error, Some(error) if error.is::<ParseIntError>());
        let message = attempt.error_message.clone();
        let one = (attempt.kind.clone(), attempt.outcome, message, is_parse);
        tell.send(one).unwrap();
    };
    queue.enqueue_many(&Order::up_to(6)).unwrap();
    queue.enqueue(&Finish {}).unwrap();
    queue.enqueue_many(&[Hold {}; 2]).unwrap();
    let builder = worker(&queue).backoff(Backoff::fixed(HOUR));
    let builder = builder.redact(|text| text.replace("4111", "****"));
    let worker = handlers(builder).on_attempt(hook).started();
    counted(&worker, "every job to be judged", |counts| {
        let outages = counts.outages >= 1;
        (counts.done, counts.dead, counts.retried, counts.snoozed) == (3, 1, 3, 1) && outages
    });
    stop(worker);
    let mut seen: Vec<Seen> = seen.try_iter().collect();
    // Outages run again.
    seen.sort_by_key(|one| format!("{one:?}"));
    seen.dedup_by(|one, next| one == next && one.1 == AttemptOutcome::Outage);
    let digit = "invalid digit found in string";
    let panicked = |one: &Seen| matches!(&one.2, Some(text) if text.ends_with("out of order"));
    let panicked = seen.iter().position(panicked).expect("a panic");
    assert_eq!(seen.remove(panicked).1, AttemptOutcome::Retried);
    let expected = [
        ("finish", AttemptOutcome::Retried, Some(digit), true),
        ("hold", AttemptOutcome::Done, None, false),
        ("hold", AttemptOutcome::Done, None, false),
        ("order", AttemptOutcome::Dead, Some("card ****"), false),
        ("order", AttemptOutcome::Done, None, false),
        ("order", AttemptOutcome::Outage, Some("away"), false),
        ("order", AttemptOutcome::Retried, Some(digit), true),
        ("order", AttemptOutcome::Snoozed, None, false),
    ];
    let shown = seen.iter().map(|(kind, outcome, message, is_parse)| {
        (&**kind, *outcome, message.as_deref(), *is_parse)
    });
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}

#[test]
fn a_hook_that_panics_harms_nothing() {
    let (_test, queue) = TestDatabase::with_orders();
    let orders = [6, 2].map(|number| Order { number });
    queue.enqueue_many(&orders).unwrap();
    queue.enqueue(&Hold {}).unwrap();
    let worker = handlers(worker(&queue)).on_attempt(|_| panic!("in a hook"));
    let worker = worker.redact(|_| panic!("in a hook")).started();
    let counts = finish(&queue, worker).stats;
    assert_eq!((counts.done, counts.dead), (2, 1));
}
