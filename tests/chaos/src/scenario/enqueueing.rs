//! Scenarios about enqueues: unique keys, the ring, open transactions and lost answers.

use std::thread;
use std::time::Duration;

use postgres::Client as Connection;

use super::conditions::is_claimed_times;
use super::{add_workers, enqueuer};
use crate::client::Client;
use crate::environment::Environment;
use crate::role::{ClientFlaw, JobMix, Plan, Role};

/// Turns that visit every segment.
const FULL_CIRCLE: usize = 10;
/// Enough transactions that some are rolled back.
const TRANSACTIONS: u64 = 9;

/// A key is enqueued again while the second attempt at its job runs.
pub(super) fn unique(env: &mut Environment) {
    let mut client = Client::open(env, "client");
    add_workers(env, 2);
    let id = client.enqueue_unique("key", Plan::RetryThenHold);
    env.wait_for_sql("the second attempt is claimed", &is_claimed_times(id, 2));
    client.enqueue_unique("key", Plan::Done);
}

/// The ring turns while jobs are in its segments, and while a transaction that enqueues is open.
pub(super) fn ring(env: &mut Environment, flaw: ClientFlaw) {
    let mut client = Client::open(env, "client");
    let mut turning = env.client();
    // Without workers, so that the jobs stay in the segment.
    client.enqueue(&[Plan::Done; 5]);
    turn(&mut turning, FULL_CIRCLE);
    enqueue_across_a_turn(env, &mut client, &mut turning);
    add_workers(env, 2);
    env.add(crate::processes::ProcessSpec {
        jobs: TRANSACTIONS,
        ..enqueuer(0, JobMix::Transactions, flaw)
    });
    env.add(enqueuer(200, JobMix::Instant, flaw));
    for _ in 0..3 {
        env.pass(Duration::from_millis(300));
        enqueue_across_a_turn(env, &mut client, &mut turning);
    }
    let enqueuer = env.processes.with_role(Role::Enqueuer)[0];
    env.wait_for("all transactions have ended", |env| {
        env.processes.is_finished(enqueuer)
    });
}

pub(super) fn turn(turning: &mut Connection, times: usize) {
    for _ in 0..times {
        // A limit of 0 bytes turns the ring at any size.
        turning
            .query("SELECT redrive.turn_ring(0, 1000)", &[])
            .expect("turn the ring");
        // Nothing waits: neither for older snapshots, nor after a refused truncation. A worker that
        // turns the ring locks rows in another order.
        turning
            .batch_execute(
                "UPDATE redrive.ring_segments \
                 SET drained_at = drained_at - interval '10 seconds', retry_at = '-infinity' \
                 WHERE segment = ANY (ARRAY( \
                     SELECT segment FROM redrive.ring_segments FOR UPDATE SKIP LOCKED))",
            )
            .expect("age the segments");
    }
}

/// Enqueues a job and turns the ring before the commit.
fn enqueue_across_a_turn(env: &mut Environment, client: &mut Client, turning: &mut Connection) {
    let mut enqueuing = env.client();
    enqueuing
        .batch_execute("SET application_name = 'client'")
        .expect("name the connection");
    let mut observer = env.client();
    let transaction = enqueuing.transaction().expect("begin");
    client.enqueue_in(transaction, |transaction| {
        thread::scope(|scope| {
            let turns = scope.spawn(|| turn(turning, FULL_CIRCLE));
            // Correct code gives up its lock at once and finishes.
            env.wait_for("a turn waits for the transaction or has passed it", |_| {
                turns.is_finished() || waits_to_truncate(&mut observer)
            });
            transaction.commit().expect("commit");
        });
    });
}

/// Whether a turn waits for more than its lock timeout of 50 ms.
fn waits_to_truncate(observer: &mut Connection) -> bool {
    let query = "SELECT EXISTS (SELECT FROM pg_locks
                 WHERE NOT granted AND mode = 'AccessExclusiveLock'
                     AND waitstart < clock_timestamp() - interval '200 milliseconds')";
    observer
        .query_one(query, &[])
        .expect("ask the server")
        .get(0)
}

/// Answers to an enqueuer are lost after the server has committed.
pub(super) fn lost_answers(env: &mut Environment, flaw: ClientFlaw) {
    add_workers(env, 2);
    env.add(enqueuer(60, JobMix::Instant, flaw));
    let enqueuer = env.processes.with_role(Role::Enqueuer)[0];
    for _ in 0..4 {
        let before = env.unknown_results(enqueuer);
        env.processes.record_fault("lose the next answer");
        env.processes.proxy(enqueuer).lose_answers(1);
        env.wait_for("an answer is lost", |env| {
            env.unknown_results(enqueuer) > before
        });
    }
}
