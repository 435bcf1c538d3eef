//! The worker and its handlers, end to end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive::admin::JobState;
use redrive::{Failure, Job, NewJob};
use redrive_tests::{
    Begin, Dead, Order, SOON, Sql, Tally, TestDatabase, counted, finish, live_job, new_order, put,
    running, stop, wait_until, worker,
};
use serde_json::value::RawValue;

#[test]
fn a_handler_sees_the_details_of_its_job() {
    let (_test, queue) = TestDatabase::with_orders();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let worker = worker(&queue).runs({
        let seen = Arc::clone(&seen);
        move |job: &Job<Order>| {
            seen.lock().unwrap().push((
                (
                    job.id(),
                    job.queue().to_owned(),
                    job.kind().to_owned(),
                    job.payload().number,
                ),
                (job.attempt(), job.max_attempts(), job.is_last_attempt()),
                (
                    job.generation(),
                    job.priority(),
                    job.is_cancelled(),
                    job.enqueued_at(),
                ),
            ));
            Err(Failure::retry("again"))
        }
    });
    let new = new_order(9).priority(3).max_attempts(2);
    let id = put(&queue, new);
    finish(&queue, worker);
    let letter = queue.letter(id);
    let seen = seen.lock().unwrap();
    let who = (id, "orders".to_owned(), "order".to_owned(), 9);
    let rest = (0, 3, false, letter.enqueued_at);
    assert_eq!(
        *seen,
        [
            (who.clone(), (1, 2, false), rest),
            (who, (2, 2, true), rest)
        ]
    );
}

#[test]
fn a_handler_for_any_kind_gets_the_remaining_jobs_as_raw_json() {
    let (_test, queue) = TestDatabase::with_orders();
    let any = Arc::new(Mutex::new(Vec::new()));
    let typed = Tally::new();
    let worker = worker(&queue)
        .handle(typed.counting())
        .handle_any({
            let any = Arc::clone(&any);
            move |job: &Job<Box<RawValue>>| {
                any.lock()
                    .unwrap()
                    .push((job.kind().to_owned(), job.payload().get().to_owned()));
                Ok(())
            }
        })
        .started();
    let order = queue.enqueue(&Order { number: 1 }).unwrap();
    // A number that no f64 can represent and serde_json would change.
    queue
        .enqueue_job(NewJob::raw("odd", "123456789012345678901234567890.10").unwrap())
        .unwrap();
    finish(&queue, worker);
    assert_eq!(typed.of(order), 1);
    let expected = (
        "odd".to_owned(),
        "123456789012345678901234567890.10".to_owned(),
    );
    assert_eq!(*any.lock().unwrap(), [expected]);
}

#[test]
fn a_kind_without_a_handler_stays_ready_for_a_worker_that_has_one() {
    let (_test, queue) = TestDatabase::with_orders();
    let stranger = put(&queue, NewJob::raw("stranger", "{}").unwrap().priority(9));
    let known = queue.enqueue(&Order { number: 1 }).unwrap();
    let tally = Tally::new();
    let one = worker(&queue).runs(tally.counting());
    wait_until("the job behind it to be done", SOON, || {
        tally.of(known) == 1
    });
    stop(one);
    let job = live_job(&queue, stranger);
    assert_eq!((job.state, job.attempts), (JobState::Ready, 0));

    let other = worker(&queue).handle_any(|_| Ok(())).started();
    assert_eq!(finish(&queue, other).stats.done, 1);
}

#[test]
fn a_delayed_job_runs_when_it_is_due_and_not_before() {
    let (test, queue) = TestDatabase::with_orders();
    let later = new_order(1).delay(Duration::from_hours(1)).priority(9);
    let later = put(&queue, later);
    let tally = Tally::new();
    let worker = worker(&queue).runs(tally.counting());
    let now = queue.enqueue(&Order { number: 2 }).unwrap();
    wait_until("the ready job to be done", SOON, || tally.of(now) == 1);
    let job = live_job(&queue, later);
    assert_eq!((job.state, tally.of(later)), (JobState::Delayed, 0));
    test.client().sql(
        "UPDATE redrive.jobs_delayed SET run_at = clock_timestamp() - interval '1 ms'; \
              NOTIFY redrive_ready, 'orders'",
    );
    finish(&queue, worker);
    assert_eq!(tally.of(later), 1);
}

#[test]
fn no_transaction_or_lock_is_held_while_a_handler_runs() {
    let (test, queue) = TestDatabase::with_orders();
    let (gate, worker, _) = running(&queue);
    // The statements of the worker are short; a lock held for the handler would stay.
    let held = "SELECT count(*) FROM pg_stat_activity a \
                WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() \
                    AND (a.state LIKE 'idle in transaction%' OR EXISTS ( \
                        SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.locktype = 'advisory'))";
    let mut client = test.client();
    wait_until("no session to hold a transaction or a lock", SOON, || {
        client.ask::<i64>(held, &[]) == 0
    });
    gate.open();
    counted(&worker, "the job to be done", |counts| counts.done == 1);
    stop(worker);
}
