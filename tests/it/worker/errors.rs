//! What follows from the errors of handlers: rules for types, errors that decide themselves, and errors
//! because of a stop.

use redrive::Rejection;
use redrive_tests::prelude::*;

/// Fails in a way that the number of the order decides, three layers down.
fn charge(number: i64) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    match number {
        1 => Err("x".parse::<i32>().expect_err("no number").into()),
        2 => Err(std::io::Error::other("refused").into()),
        3 => Err(Rejection::new("no such currency").into()),
        _ => Ok(()),
    }
}

#[test]
fn rules_and_errors_decide_for_jobs_and_for_batches() {
    let plain: fn(WorkerBuilder) -> WorkerBuilder = |builder| {
        builder.handle(|job: &Job<Order>| charge(job.payload().number).map_err(Failure::any))
    };
    let whole: fn(WorkerBuilder) -> WorkerBuilder = |builder| {
        builder.handle_batch(BatchOptions::new(1), |batch: &Batch<Order>| {
            charge(batch.jobs()[0].payload().number).map_err(Failure::any)
        })
    };
    for handler in [plain, whole] {
        let (_test, queue) = TestDatabase::with_orders();
        let ids = queue.enqueue_many(&Order::up_to(4)).unwrap();
        let rules = HandlerOptions::new().reject_on::<std::num::ParseIntError>();
        let rules = rules.outage_on::<std::io::Error>("gateway");
        let worker = handler(worker(&queue)).options(rules).started();
        counted(&worker, "every job to be judged", |counts| {
            (counts.done, counts.dead) == (1, 2) && counts.outages >= 1
        });
        stop(worker);
        for (id, class, message) in [
            (ids[0], "ParseIntError", "invalid digit found in string"),
            (ids[2], "Rejected", "no such currency"),
        ] {
            let letter = queue.letter(id);
            assert_eq!(letter.cause, DeathCause::Rejected);
            assert_eq!(letter.history[0].outcome, "rejected");
            let error = (letter.error_class.as_str(), letter.error_message.as_str());
            assert_eq!(error, (class, message));
        }
        assert_eq!(queue.live(ids[1]).attempts, 0);
    }
}

/// Runs until the job is cancelled, and fails.
fn obey<P>(gate: &Gate, job: &Job<P>) -> Result<(), Failure> {
    gate.pass();
    wait_until("the job to be cancelled", SOON, || job.is_cancelled());
    job.check_cancelled()?;
    Ok(())
}

#[test]
fn an_error_because_of_a_stop_is_not_charged() {
    let plain: fn(WorkerBuilder, Gate) -> WorkerBuilder =
        |builder, gate| builder.handle(move |job: &Job<Hold>| obey(&gate, job));
    let own: fn(WorkerBuilder, Gate) -> WorkerBuilder = |builder, gate| {
        builder.handle(move |job: &Job<Hold>, _: &mut Transaction<'_>| obey(&gate, job))
    };
    let batch: fn(WorkerBuilder, Gate) -> WorkerBuilder = |builder, gate| {
        let handler = move |batch: &Batch<Hold>| obey(&gate, &batch.jobs()[0]);
        builder.handle_batch(BatchOptions::new(1), handler)
    };
    // A job has ten refunds.
    let cases = [plain, own, batch].into_iter();
    for (handler, refunds) in cases.flat_map(|it| [(it, 0), (it, 10)]) {
        let (_test, queue, mut client) = TestDatabase::with_session();
        let gate = Gate::new();
        gate.open();
        let id = put(&queue, NewJob::new(&Hold {}).unwrap().max_attempts(1));
        client.sql(&format!("UPDATE redrive.jobs SET meta.refunds = {refunds}"));
        let worker: Worker = handler(worker(&queue), gate.clone()).started();
        gate.wait_for(1);
        let stopped = worker.stop(Duration::ZERO).unwrap();
        let letter = queue.database().dlq().get(id).unwrap();
        if refunds == 10 {
            let letter = letter.expect("a letter");
            assert_eq!((letter.cause, letter.attempts), (DeathCause::Exhausted, 1));
            continue;
        }
        assert!(letter.is_none(), "{letter:?}");
        assert_eq!((stopped.stats.released, stopped.stats.dead), (1, 0));
        assert_eq!(queue.live(id).attempts, 0);
        let counted = "SELECT (meta).refunds::bigint FROM redrive.jobs
            UNION ALL SELECT (meta).refunds FROM redrive.jobs_delayed";
        assert_eq!(scalar(&mut client, counted), 1);
    }
}
