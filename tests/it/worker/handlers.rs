//! The worker and its handlers, end to end.

use redrive_tests::prelude::*;

#[test]
fn a_handler_sees_the_details_of_its_job() {
    let (_test, queue) = TestDatabase::with_orders();
    let (sent, seen) = mpsc::channel();
    let worker = worker(&queue).runs(move |job: &Job<Order>| {
        assert_eq!((job.queue(), job.kind()), ("orders", "order"));
        assert_eq!((job.payload().number, job.priority()), (9, 3));
        assert_eq!((job.max_attempts(), job.generation()), (2, 0));
        assert!(!job.is_cancelled());
        let attempt = (job.attempt(), job.is_last_attempt());
        sent.send((job.id(), attempt, job.enqueued_at())).unwrap();
        Err(Failure::retry("again"))
    });
    let id = put(&queue, new_order(9).priority(3).max_attempts(2));
    finish(&queue, worker);
    let enqueued_at = queue.letter(id).enqueued_at;
    let expected = [(1, false), (2, true)].map(|attempt| (id, attempt, enqueued_at));
    assert_eq!(seen.try_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn a_delayed_job_runs_when_it_is_due_and_not_before() {
    let (test, queue) = TestDatabase::with_orders();
    let later = new_order(1).delay(HOUR);
    let later = put(&queue, later.priority(9));
    let tally = Tally::new();
    let worker = worker(&queue).runs(tally.counting());
    let now = queue.enqueue(&Order { number: 2 }).unwrap();
    wait_until("the ready job to be done", SOON, || tally.of(now) == 1);
    let job = queue.live(later);
    assert_eq!((job.state, tally.of(later)), (JobState::Delayed, 0));
    test.all_due();
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
    done(&worker, 1);
    stop(worker);
}
