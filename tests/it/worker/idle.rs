//! An idle worker: no enqueue is missed, and jobs that it may not run are not looked for all the time.

use redrive_tests::prelude::*;

/// A worker that polls once a minute: a job that runs earlier was notified or found at once.
fn rarely_looking(queue: &Queue) -> Worker {
    let worker = lively(queue).poll_interval(Duration::from_mins(1));
    worker.runs(|_: &Job<Order>| Ok(()))
}

/// Much longer than a slow machine needs, and less than the poll interval.
const BEFORE_THE_POLL: Duration = Duration::from_secs(30);

#[test]
fn a_job_enqueued_while_the_worker_did_not_listen_is_found() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let worker = rarely_looking(&queue);
    client.reaches("workers WHERE waiting", 1);
    let listening = "SELECT pid FROM pg_stat_activity \
        WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'";
    wait_until("the worker to listen", SOON, || {
        client.query_opt(listening, &[]).unwrap().is_some()
    });
    // In one transaction: cut its connection and enqueue a job without a notification.
    client.sql(&format!(
        "SELECT pg_terminate_backend(pid, 10000) FROM ({listening}) p; \
             SELECT redrive.enqueue('orders', 'order', '{{\"number\": 1}}')"
    ));
    wait_until("the job", BEFORE_THE_POLL, || worker.stats().done == 1);
    stop(worker);
}

#[test]
fn a_worker_whose_connection_ended_while_it_stored_a_checkpoint_listens_again() {
    let (test, queue, mut client) = TestDatabase::with_session();
    client.sql("CREATE SEQUENCE public.tries");
    test.before(
        "UPDATE OF metas ON redrive.leases",
        "IF nextval('public.tries') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF",
    );
    let gate = kept::<Gate>();
    let worker = lively(&queue)
        .slots(2)
        .poll_interval(Duration::from_mins(1))
        .handle(move |job: &Job<Hold>| {
            job.checkpoint(&1)?;
            gate.pass();
            Ok(())
        })
        .runs(|_: &Job<Order>| Ok(()));
    queue.enqueue(&Hold {}).unwrap();
    wait_until("a second try", SOON, || {
        scalar(&mut client, "SELECT last_value FROM public.tries") > 1
    });
    client.reaches("workers WHERE waiting", 1);
    queue.enqueue(&Order { number: 1 }).unwrap();
    wait_until("the job", BEFORE_THE_POLL, || worker.stats().done == 1);
    gate.open();
    stop(worker);
}

/// The looks of a start, and those of a second: a busy machine only delays them.
const AROUND: u64 = 40;
const A_SECOND: u64 = 8;

#[test]
fn a_worker_without_jobs_free_groups_or_tokens_does_not_look_all_the_time() {
    for lacking in ["jobs", "groups", "tokens"] {
        let (test, queue, mut client) = TestDatabase::with_session();
        if lacking == "groups" {
            client.sql("SELECT redrive.set_group_policy('orders', 'limit', 1)");
        }
        if lacking == "tokens" {
            client.sql("SELECT redrive.set_rate_limit('orders', 1, '1 day', 1)");
            queue.enqueue(&Order { number: 1 }).unwrap();
            // It takes the only token of the day.
            finish(&queue, rarely_looking(&queue));
        }
        if lacking != "jobs" {
            let jobs = vec![new_order(1).group("a"); 1000];
            queue.enqueue_jobs(&jobs).unwrap();
        }
        if lacking == "groups" {
            // A slot of a job that does not end.
            client.sql("INSERT INTO redrive.group_slots (queue, group_key, slot, job_id) VALUES ('orders', 'a', 1, 0)");
        }
        let untouched = test.untouched();
        let begun = Instant::now();
        let worker = rarely_looking(&queue);
        client.reaches("workers", 1);
        super::renewed_for(&mut client, 4000);
        let counts = stop(worker).stats;
        let most = AROUND + A_SECOND * begun.elapsed().as_secs();
        let looks = counts.looks;
        assert!(looks <= most, "{looks} looks without {lacking}, not {most}");
        assert_eq!((counts.done, test.untouched()), (0, untouched));
    }
}
