//! Open transactions of other programs: they delay at most the job that they concern.

use redrive_tests::prelude::*;

use crate::worker::renewed_for;

/// Starts a worker whose handlers wait at the gate. Jobs with an odd number are rejected.
fn at_the_gate(queue: &Queue, gate: &Gate, tally: &Tally) -> Worker {
    let end = |job: &Job<Order>| match job.payload().number % 2 {
        0 => Ok(()),
        _ => Err(Failure::reject("an odd number")),
    };
    lively(queue).slots(8).runs(gate.counting(tally, end))
}

#[test]
fn an_enqueue_of_a_taken_key_in_an_open_transaction_does_not_delay_its_job() {
    let (test, queue) = TestDatabase::with_orders();
    let (gate, tally) = (Gate::new(), Tally::new());
    let ids = ["a", "b", "c"].map(|key| put(&queue, new_order(2).unique(key)));
    let worker = at_the_gate(&queue, &gate, &tally);
    gate.wait_for(3);
    // Three callers: the library, SQL, and a prepared transaction that its program forgot.
    let mut transaction = test.begins("");
    let found = queue.enqueue_job_in(&mut transaction, new_order(4).unique("a"));
    assert_eq!(found.unwrap(), Enqueued::Existing(ids[0]));
    let call = "SELECT redrive.enqueue('orders', 'order', '{}', unique_key => $1)";
    let found: i64 = transaction.ask(call, &[&"b"]);
    assert_eq!(JobId::new(found), ids[1]);
    test.sql("BEGIN; SELECT redrive.enqueue('orders', 'order', '{}', unique_key => 'c'); PREPARE TRANSACTION 'forgotten'");
    gate.open();
    done(&worker, 3);
    // The keys are free now, also for the open transaction.
    let again = queue.enqueue_job_in(&mut transaction, new_order(4).unique("a"));
    assert!(matches!(again, Ok(Enqueued::New(_))), "{again:?}");
    transaction.sql("COMMIT");
    test.sql("ROLLBACK PREPARED 'forgotten'");
    let counts = finish(&queue, worker).stats;
    assert_eq!((counts.done, counts.lost, counts.released), (4, 0, 0));
    assert_eq!(tally.repeated(), []);
}

type Opens = fn(&Queue, &mut Transaction<'_>);

/// Locks the failure group of `C: m`.
const CAPTURE: &str = "SELECT redrive.capture('kafka', '1', 'orders', 'order', '1', error_class => 'C', error_message => 'm')";

#[test]
fn an_open_transaction_delays_only_the_jobs_that_need_its_locks() {
    let keyed = || new_order(100).unique("K");
    let key: Opens = |queue, transaction| {
        let keyed = new_order(100).unique("K");
        queue.enqueue_job_in(transaction, keyed).unwrap();
    };
    let failure_group: Opens = |_, transaction| transaction.sql(CAPTURE);
    // What the transaction holds, and what is done and dead before its end.
    for (opens, before) in [(key, (7, 2)), (failure_group, (9, 1))] {
        let (_test, queue, mut client) = TestDatabase::with_session();
        let mut transaction = client.transaction().unwrap();
        opens(&queue, &mut transaction);
        queue.enqueue_many(&Order::up_to(10)).unwrap();
        let tally = kept::<Tally>();
        let worker = worker(&queue).slots(4).runs(move |job: &Job<Order>| {
            tally.count(job.id());
            match job.payload().number {
                3 => Ok(job.then(keyed())?),
                5 => Err(Failure::reject("n").class("C")),
                7 => Err(Failure::reject("m").class("C")),
                _ => Ok(()),
            }
        });
        counted(&worker, "the other jobs of the lease", |counts| {
            (counts.done, counts.dead) == before
        });
        transaction.rollback().unwrap();
        let counts = finish(&queue, worker).stats;
        assert_eq!((counts.done, counts.dead), (9, 2));
        assert_eq!((counts.lost, counts.released), (0, 0));
        assert_eq!(tally.repeated(), []);
    }
}

#[test]
fn verdicts_that_wait_for_a_lock_do_not_keep_back_those_behind_them() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let mut transaction = client.transaction().unwrap();
    transaction.sql(CAPTURE);
    queue.enqueue_many(&Order::up_to(4)).unwrap();
    let handler = |batch: &Batch<Order>| -> Result<(), Failure> {
        for job in batch.jobs() {
            let message = if job.payload().number < 4 { "m" } else { "n" };
            job.fail(Failure::reject(message).class("C"));
        }
        Ok(())
    };
    let options = BatchOptions::new(4).linger(SOON);
    let worker = worker(&queue).handle_batch(options, handler).started();
    counted(&worker, "the last of the lease", |counts| counts.dead == 1);
    transaction.rollback().unwrap();
    assert_eq!(finish(&queue, worker).stats.dead, 4);
}

#[test]
fn a_handler_in_a_transaction_is_not_charged_for_a_key_that_another_transaction_holds() {
    let (test, queue) = TestDatabase::with_orders();
    let keyed = || new_order(100).unique("K");
    let mut transaction = test.begins("");
    queue.enqueue_job_in(&mut transaction, keyed()).unwrap();
    queue.enqueue_job(new_order(1).max_attempts(1)).unwrap();
    let handler = move |job: &Job<Order>, _: &mut Transaction<'_>| match job.payload().number {
        1 => Ok(job.then(keyed())?),
        _ => Ok(()),
    };
    let worker = worker(&queue).handle(handler).started();
    counted(&worker, "the interruption", |counts| counts.released > 0);
    transaction.sql("ROLLBACK");
    let counts = finish(&queue, worker).stats;
    assert_eq!((counts.done, counts.dead, counts.retried), (2, 0, 0));
}

#[test]
fn an_open_transaction_with_the_key_of_a_letter_keeps_back_only_that_letter() {
    let (test, queue) = TestDatabase::with_orders();
    for number in 1..=3 {
        put(&queue, new_order(number).unique(number.to_string()));
    }
    work_off(&queue, |_: &Job<Order>| Err(Failure::reject("no")));
    let mut transaction = test.begins("");
    let taken = new_order(4).unique("2");
    queue.enqueue_job_in(&mut transaction, taken).unwrap();
    let redrive = || {
        let redriven = queue.redrives(&LetterFilter::new());
        (redriven.redriven.len(), redriven.skipped.len())
    };
    assert_eq!(redrive(), (2, 1));
    transaction.sql("ROLLBACK");
    assert_eq!(redrive(), (1, 0));
}

#[test]
fn a_capture_of_a_redriving_letter_in_an_open_transaction_does_not_delay_its_job() {
    let (test, queue) = TestDatabase::with_orders();
    let (gate, tally) = (Gate::new(), Tally::new());
    let order = |at| ForeignFailure::new("kafka", at, "orders", "order", r#"{"number":2}"#);
    for at in ["0/1", "0/2"] {
        queue.captures(&order(at));
    }
    queue.redrives(&LetterFilter::new());
    let worker = at_the_gate(&queue, &gate, &tally);
    gate.wait_for(2);
    let mut transaction =
        test.begins("SELECT redrive.capture('kafka', '0/1', 'orders', 'order', '{\"number\":2}'); \
             SELECT redrive.capture_letters(ARRAY['{\"source\": \"kafka\", \"position\": \"0/2\", \"queue\": \"orders\", \
                 \"kind\": \"order\"}'::jsonb], ARRAY['{\"number\":2}'::bytea])");
    gate.open();
    done(&worker, 2);
    transaction.sql("COMMIT");
    let counts = stop(worker).stats;
    assert_eq!((counts.done, counts.lost, counts.released), (2, 0, 0));
    assert_eq!(in_state(&queue, LetterState::Recovered), 2);
}

#[test]
fn a_lock_on_one_lease_delays_no_other_lease_and_repeats_no_job() {
    // Both jobs succeed, and both die: different statements settle them.
    for number in [2, 3] {
        let (test, queue) = TestDatabase::with_orders();
        let (gate, tally) = (Gate::new(), Tally::new());
        let worker = at_the_gate(&queue, &gate, &tally);
        // Two leases, because the second job arrives after the claim of the first.
        let locked = queue.enqueue(&Order { number }).unwrap();
        gate.wait_for(1);
        queue.enqueue(&Order { number }).unwrap();
        gate.wait_for(2);
        let lock = format!("SELECT FROM redrive.leases WHERE ids[1] = {locked} FOR UPDATE");
        let mut locker = test.begins(&lock);
        gate.open();
        counted(&worker, "the other job to be settled", |counts| {
            counts.done + counts.dead == 1
        });
        // Longer than a lease: the worker keeps the verdict for as long as it renews.
        renewed_for(&mut test.client(), 4000);
        assert_eq!(worker.stats().lost, 0);
        locker.sql("ROLLBACK");
        let counts = finish(&queue, worker).stats;
        assert_eq!((counts.done + counts.dead, counts.lost), (2, 0));
        assert_eq!((counts.released, tally.repeated()), (0, vec![]));
    }
}

/// The first try of a verdict may have been written, and the next one meets a lock. The statement writes nothing of a lease
/// of which it has written some.
#[test]
fn a_verdict_beside_one_whose_answer_was_lost_is_written() {
    let (test, queue, mut client) = TestDatabase::with_session();
    client.sql("CREATE SEQUENCE public.tries");
    test.before(
        "UPDATE OF done ON redrive.leases",
        "CASE nextval('public.tries') \
             WHEN 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); \
             WHEN 2 THEN RAISE 'locked' USING ERRCODE = 'lock_not_available'; \
             ELSE NULL; \
         END CASE",
    );
    let gate = Gate::new();
    queue.enqueue(&Hold {}).unwrap();
    let order = queue.enqueue(&Order { number: 1 }).unwrap();
    let worker = worker(&queue).slots(2).handle(gate.handler());
    let worker = worker.runs(|_: &Job<Order>| Ok(()));
    gate.wait_for(1);
    wait_until("the second try", SOON, || {
        scalar(&mut client, "SELECT last_value FROM public.tries") > 1
    });
    client.sql(&format!(
        "UPDATE redrive.leases SET done = '{{{order}}}' WHERE done = '{{}}'"
    ));
    gate.open();
    let counts = finish(&queue, worker).stats;
    assert_eq!((counts.done, counts.lost, counts.released), (2, 0, 0));
}
