//! An idle worker: its statements, and that no enqueue is missed.

use redrive_tests::prelude::*;

use super::wake::notified;

/// A worker that polls once a minute: a job that runs earlier was notified or found at once.
fn rarely_looking(queue: &Queue) -> Worker {
    worker(queue)
        .poll_interval(Duration::from_mins(1))
        .runs(|_: &Job<Order>| Ok(()))
}

/// Waits until this many jobs are done, for less than the poll interval of [`rarely_looking`] and much longer than a slow
/// machine needs. Stops the worker.
#[track_caller]
fn soon_done(worker: Worker, jobs: u64) {
    let long_before = Duration::from_secs(30);
    wait_until("the jobs", long_before, || worker.stats().done == jobs);
    stop(worker);
}

fn waits(client: &mut Client) -> bool {
    let asked = "SELECT coalesce(bool_and(waiting), false) FROM redrive.workers";
    client.ask(asked, &[])
}

#[test]
fn a_job_enqueued_while_the_worker_registers_to_wait_is_found() {
    let (test, queue, mut client) = TestDatabase::with_session();
    let mut late = test.client();
    let mut tx = late.transaction().unwrap();
    // No worker waits yet, so this sends no notification, even if it commits later.
    queue.enqueue_in(&mut tx, &Order { number: 1 }).unwrap();
    let worker = rarely_looking(&queue);
    wait_until("the worker to wait", SOON, || waits(&mut client));
    // It polled after it registered, and a few times more.
    let mut listener = test.client();
    listener.sql("LISTEN redrive_ready");
    tx.commit().unwrap();
    assert_eq!(notified(&mut listener), [""; 0], "it sent no notification");
    soon_done(worker, 1);
}

#[test]
fn a_job_enqueued_while_the_worker_did_not_listen_is_found() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let worker = rarely_looking(&queue);
    wait_until("the worker to wait", SOON, || waits(&mut client));
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
    soon_done(worker, 1);
}

#[test]
fn only_an_idle_worker_is_notified() {
    let (test, queue, mut client) = TestDatabase::with_session();
    let mut listener = test.client();
    listener.sql("LISTEN redrive_ready");
    let worker = rarely_looking(&queue);
    wait_until("the worker to wait", SOON, || waits(&mut client));
    // A backlog of full claims, until the worker turns notifications off.
    let mut jobs = 0;
    wait_until("the worker not to wait", SOON, || {
        jobs += 20_000;
        queue.enqueue_many(&Order::up_to(20_000)).unwrap();
        // While its row is locked it cannot turn them on again.
        let mut locked = client.transaction().unwrap();
        locked.sql("SELECT FROM redrive.workers FOR UPDATE");
        let waits = "SELECT bool_or(waiting) FROM redrive.workers";
        if locked.ask(waits, &[]) {
            return false;
        }
        notified(&mut listener);
        for order in Order::up_to(50) {
            queue.enqueue(&order).unwrap();
            jobs += 1;
        }
        assert_eq!(notified(&mut listener), [""; 0]);
        true
    });
    done(&worker, jobs);
    wait_until("the worker to wait again", SOON, || waits(&mut client));
    notified(&mut listener);
    queue.enqueue(&Order { number: 1 }).unwrap();
    assert_eq!(notified(&mut listener), ["orders"]);
    soon_done(worker, jobs + 1);
}

/// The work of chores: an unrelated breaker, a policy, retention, a schedule that is not due.
const EVERYTHING: &str = "
    SELECT redrive.open_breaker('elsewhere', reason => 'a test', person => 'me');
    SELECT redrive.set_policy('nightly', '{\"queue\": \"orders\"}', '6 hours');
    SELECT redrive.set_retention(NULL, 'recovered', '30 days');
    SELECT redrive.schedule('hourly', 'orders', 'order', '{\"number\": 1}', every => '1 hour')";

/// The statements of a second: a renewal, chores, breakers and policies once each, and a poll every
/// two seconds. A busy machine only delays them.
const A_SECOND: i64 = 8;
/// The statements to start and stop, including those of the connections and of this test.
const AROUND: i64 = 80;

#[test]
fn an_idle_worker_sends_few_statements_over_four_connections() {
    let test = TestDatabase::migrated();
    test.sql(EVERYTHING);
    sends_few_statements(&test);
}

#[test]
fn a_worker_whose_groups_have_no_free_slot_sends_few_statements() {
    let test = TestDatabase::migrated();
    let queue = test.queue_of("orders", 5);
    let limited = queue.set_group_policy(GroupPolicy::Limit(1), &maria());
    limited.unwrap();
    backlog(&queue);
    // A slot of a job that does not end.
    test.sql("INSERT INTO redrive.group_slots (queue, group_key, slot, job_id) VALUES ('orders', 'a', 1, 0)");
    drop(queue);
    sends_few_statements(&test);
}

#[test]
fn a_worker_without_tokens_sends_few_statements() {
    let test = TestDatabase::migrated();
    let queue = test.queue_of("orders", 5);
    let daily = RateLimit::per(1, DAY).burst(1);
    let limited = queue.limit_rate(RateLimited::Queue, daily, &maria());
    limited.unwrap();
    queue.enqueue(&Order { number: 1 }).unwrap();
    // It takes the only token of the day.
    finish(&queue, rarely_looking(&queue));
    backlog(&queue);
    drop(queue);
    sends_few_statements(&test);
}

/// 1,000 jobs of a group.
fn backlog(queue: &Queue) {
    let jobs = vec![new_order(1).group("a"); 1000];
    queue.enqueue_jobs(&jobs).unwrap();
}

/// Counts the statements of a worker that has no job to run, and asserts that it charged none. No other session may be
/// left.
#[track_caller]
fn sends_few_statements(test: &TestDatabase) {
    let mut server = Client::connect(&server_url(), NoTls).unwrap();
    let before = transactions_until_now(&mut server, test);
    let queue = test.queue_of("orders", 5);
    let mut client = test.client();
    let begun = Instant::now();
    let worker = worker(&queue)
        .lease(Duration::from_secs(3))
        .poll_interval(Duration::from_secs(2))
        .runs(|_: &Job<Order>| Ok(()));
    let mut asked = 0;
    let mut renewals = 0;
    let mut last = String::new();
    // Prepared, so that each is one transaction.
    let renewed = "SELECT max(expires_at)::text FROM redrive.workers";
    let renewed = client.prepare(renewed).unwrap();
    wait_until("ten renewals", SOON, || {
        asked += 1;
        let now: String = client.query_one(&renewed, &[]).unwrap().get(0);
        renewals += i64::from(now != last);
        last = now;
        renewals > 10
    });
    // A worker that does not run jobs has four connections, and this call gets the fifth.
    queue.is_drained().unwrap();
    assert_eq!(stop(worker).stats.done, 0);
    let charged =
        "SELECT count(*) FROM redrive.jobs WHERE (meta).attempt > 0 OR (meta).refunds > 0";
    assert_eq!(scalar(&mut client, charged), 0);
    drop((queue, client));
    let transactions = transactions_until_now(&mut server, test) - before;
    // The last one counted the charged jobs.
    let of_worker = transactions - asked - 1;
    let seconds = i64::try_from(begun.elapsed().as_secs()).unwrap();
    // More than it did for its renewals, if that is what was counted.
    let expected = renewals..=AROUND + A_SECOND * seconds;
    let is_right = expected.contains(&of_worker);
    assert!(is_right, "{of_worker} transactions in {seconds} s");
}

/// The transactions of all sessions of a database, which end first.
fn transactions_until_now(server: &mut Client, test: &TestDatabase) -> i64 {
    let database = test.name();
    // A session publishes its statistics at its end at the latest.
    wait_until("all connections to end", SOON, || {
        let there = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1";
        server.ask::<i64>(there, &[&database]) == 0
    });
    let now: SystemTime = server.ask("SELECT clock_timestamp()", &[]);
    // PostgreSQL 14 answers from a copy that may be half a second old; later versions have no copy.
    let counted = "
        SELECT d.xact_commit + d.xact_rollback
        FROM pg_stat_database d
        WHERE d.datname = $1 AND coalesce(pg_stat_get_snapshot_timestamp() > $2, true)";
    let mut transactions = None;
    wait_until("statistics newer than the last session", SOON, || {
        let row = server.query_opt(counted, &[&database, &now]).unwrap();
        transactions = row.map(|row| row.get(0));
        transactions.is_some()
    });
    transactions.unwrap()
}
