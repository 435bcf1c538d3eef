//! Backlogs: a claim gets past jobs that it must leave, and finds them again.

use redrive_tests::prelude::*;

/// The number of jobs ahead: more than a claim reads whole.
const AHEAD: i64 = 200_000;

/// Stores ready jobs of a kind.
fn backlog(client: &mut Client, kind: &str) {
    let store = "INSERT INTO redrive.jobs (segment, queue, kind, payload) \
                 SELECT (SELECT r.segment FROM redrive.ring r), 'orders', $1::text, json_build_object('pad', repeat('x', 60)) \
                 FROM generate_series(1, $2::bigint)";
    client.change(store, &[&kind, &AHEAD]);
}

#[test]
fn jobs_that_a_breaker_holds_back_are_passed_and_found_again() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let held = queue.enqueue(&Hold {}).unwrap();
    backlog(&mut client, "hold");
    let order = queue.enqueue(&Order { number: 1 }).unwrap();
    client.sql("SELECT redrive.open_breaker('gateway')");
    let tally = kept::<Tally>();
    let builder = worker(&queue).handle(move |job: &Job<Hold>| {
        tally.count(job.id());
        Ok(())
    });
    let builder = builder.options(HandlerOptions::new().dependency("gateway"));
    let worker = builder.runs(tally.counting());
    done(&worker, 1);
    assert_eq!(tally.order(), [order]);
    client.sql("SELECT redrive.close_breaker('gateway')");
    wait_until("a job that was held back", SOON, || tally.of(held) == 1);
    stop(worker);
}

#[test]
fn a_probe_finds_its_job_behind_a_locked_one_and_a_backlog() {
    let (test, queue, mut client) = TestDatabase::with_session();
    let locked = queue.enqueue(&Hold {}).unwrap();
    backlog(&mut client, "unhandled");
    let free = queue.enqueue(&Hold {}).unwrap();
    queue.enqueue(&Order { number: 1 }).unwrap();
    let lock = format!("SELECT FROM redrive.jobs WHERE id = {locked} FOR UPDATE");
    let mut lock = test.begins(&lock);
    client.sql("SELECT redrive.open_breaker('gateway', '1 ms')");
    let (probes, probed) = mpsc::channel();
    let builder = worker(&queue).handle(move |job: &Job<Hold>| {
        probes.send(job.id()).unwrap();
        Ok(())
    });
    let builder = builder.options(HandlerOptions::new().dependency("gateway"));
    let worker = builder.runs(|_: &Job<Order>| Ok(()));
    wait_until("the breaker to close", SOON, || {
        let closed = "SELECT state = 'closed' FROM redrive.breakers WHERE name = 'gateway'";
        client.ask(closed, &[])
    });
    assert_eq!(probed.recv().unwrap(), free);
    lock.sql("ROLLBACK");
    done(&worker, 3);
    assert_eq!(probed.recv().unwrap(), locked);
    stop(worker);
}

#[test]
fn a_job_of_a_high_priority_does_not_wait_for_the_backlog_before_it() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    backlog(&mut client, "hold");
    let urgent = NewJob::new(&Hold {}).unwrap().priority(5);
    let urgent = queue.enqueue_job(urgent).unwrap().id();
    let tally = kept::<Tally>();
    let worker = worker(&queue).runs(move |job: &Job<Hold>| {
        tally.count(job.id());
        Ok(())
    });
    wait_until("the urgent job", SOON, || tally.of(urgent) == 1);
    let before = tally.order().len();
    assert!(before < 100_000, "{before} jobs before it");
    stop(worker);
}

#[test]
fn a_worker_without_tokens_does_not_look_for_jobs_of_its_backlog() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    backlog(&mut client, "hold");
    let limit = RateLimit::per(1, DAY);
    queue
        .limit_rate(RateLimited::Queue, limit, &maria())
        .unwrap();
    let worker = worker(&queue).runs(|_: &Job<Hold>| Ok(()));
    done(&worker, 1);
    let (before, since) = (worker.stats().looks, Instant::now());
    wait_until("a second", SOON, || {
        since.elapsed() > Duration::from_secs(1)
    });
    let looks = worker.stats().looks - before;
    assert!(looks < 1000, "{looks} looks");
    stop(worker);
}
