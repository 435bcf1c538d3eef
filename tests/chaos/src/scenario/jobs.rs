//! Scenarios about jobs: all plans, batches, keys, the ring, outages and schedules.

use std::thread;
use std::time::Duration;

use postgres::Client as Connection;
use redrive::{NewJob, Replace};

use super::conditions::{have_ended, have_renewed, is_claimed_times, last_renewal};
use super::{add_workers, serve_all};
use crate::client::{Client, delayed, transactional};
use crate::db_trace::ask;
use crate::environment::Environment;
use crate::fault::Fault;
use crate::history::Operation;
use crate::processes::ProcessSpec;
use crate::role::{BatchWork, DependentWork, JobMix, MAX_ATTEMPTS, Plan, gateway, standing};

/// Longer than the checker allows a commit to take until others see it.
pub(super) const SEEN: Duration = Duration::from_millis(600);
/// Turns that visit every segment.
const FULL_CIRCLE: usize = 10;
/// Enough jobs that one worker meets outages in a row.
const DEPENDENT: usize = 12;
/// Renewals after which the checker expects a worker to know of a pause or a breaker, and some more.
const RENEWALS: u32 = 8;
/// Enqueues of keys with a window: on a slow machine, some windows end before the next enqueue.
const WINDOWS: usize = 5;

/// These jobs ended, or retries without a limit are a violation already.
fn have_ended_or_run_on(ids: &[i64]) -> String {
    format!(
        "{} OR {}",
        have_ended(ids),
        is_claimed_times(ids, 2 * MAX_ATTEMPTS)
    )
}

/// Jobs of each plan end, rejected ones are redriven, and a delayed one is cancelled. Afterwards
/// an enqueuer and an operator work at random.
pub(super) fn work(env: &mut Environment) {
    use Plan::{Done, Outage, Panic, Reject, Retry, Snooze};
    let plans = [Done, Retry, Panic, Reject, Reject, Snooze, Outage];
    let mut client = Client::open(env, "client");
    add_workers(env, 2);
    let late = client.enqueue_as(&[Done], delayed)[0];
    let mut ids = client.enqueue(&plans);
    ids.extend(client.enqueue_as(&plans, transactional));
    env.wait_for_sql("the jobs end", &have_ended_or_run_on(&ids));
    client.redrive(4);
    env.wait_for_sql("the redriven jobs end", &have_ended_or_run_on(&ids));
    client.ops.cancel(late);
    env.add(ProcessSpec::enqueuer(120, JobMix::Tame));
    env.add(ProcessSpec::operator());
    env.pass(Duration::from_secs(3));
}

/// One fault of most kinds, behind a pooler.
pub(super) fn pooler(env: &mut Environment) {
    add_workers(env, 3);
    env.add(ProcessSpec::enqueuer(80, JobMix::Mixed));
    env.add(ProcessSpec::operator());
    for (target, fault, ms) in [
        (0, Fault::Kill, 0),
        (1, Fault::LoseAnswers, 0),
        (2, Fault::Cut, 0),
        (3, Fault::LoseAnswers, 0),
        (1, Fault::Terminate, 0),
        (0, Fault::KillBackend, 0),
        (0, Fault::Silence, 1500),
        (0, Fault::KillClient, 0),
        (0, Fault::Crash, 150),
    ] {
        env.pass(Duration::from_millis(900));
        env.inject(fault, Duration::from_millis(ms), target);
    }
    env.pass(Duration::from_secs(1));
}

/// A job aborts the process of its batch, whose jobs all become suspects of one lease. Then jobs of other batches fail
/// them, end otherwise, and let them panic.
pub(super) fn batches(env: &mut Environment) {
    use Plan::{Abort, Done, Outage, Panic, Reject, Retry, Snooze};
    let in_batch = |work: &_| NewJob::new(&BatchWork(Clone::clone(work)));
    let mut client = Client::open(env, "client");
    // Before the worker starts, so that its first claim takes all of them. The others run after the first.
    let ids = client.enqueue_as(&[Abort, Done, Done, Done, Done], in_batch);
    add_workers(env, 1);
    env.wait_for_sql(
        "the job that aborts its process is a letter",
        &have_ended(&ids),
    );
    // In one statement, so that they are claimed together.
    let plans = [
        [Done, Retry, Done, Retry, Done],
        [Done, Panic, Done, Retry, Done],
        [Done, Retry, Reject, Retry, Done],
        [Snooze, Retry, Outage, Panic, Done],
    ];
    let ids = client.enqueue_as(plans.as_flattened(), in_batch);
    add_workers(env, 1);
    env.wait_for_sql("the jobs of the batches end", &have_ended_or_run_on(&ids));
}

/// A key is enqueued again while its job runs, and while the second attempt at one does. A delayed job is replaced in
/// each way and erased, and a key is enqueued again within its window although its job has ended.
pub(super) fn unique(env: &mut Environment) {
    let mut client = Client::open(env, "client");
    for number in 0..WINDOWS {
        let key = format!("w{number}");
        for _ in 0..2 {
            let id = client.enqueue_in_window(&key);
            if id > 0 {
                client.ops.cancel(id);
            }
        }
    }
    let delayed = client.replace("r", Replace::Both);
    for replace in [Replace::Payload, Replace::Time, Replace::Both] {
        client.replace("r", replace);
    }
    client.ops.erase(delayed);
    let until_started = |job: NewJob| job.unique("s").until_started();
    let id = client.enqueue_keyed(Operation::Enqueue, Plan::Hold, until_started)[0];
    add_workers(env, 1);
    env.wait_for_sql("the job starts", &is_claimed_times(&[id], 1));
    env.pass(SEEN);
    client.enqueue_keyed(Operation::Enqueue, Plan::Done, until_started);
    let id = client.enqueue_unique("key", Plan::RetryThenHold);
    env.wait_for_sql("the second attempt is claimed", &is_claimed_times(&[id], 2));
    client.enqueue_unique("key", Plan::Done);
}

/// The ring turns while jobs are in its segments, and while a transaction that enqueues is open.
pub(super) fn ring(env: &mut Environment) {
    let mut client = Client::open(env, "client");
    let mut turning = env.client();
    // Without workers, so that the jobs stay in the segment.
    client.enqueue(&[Plan::Done; 5]);
    turn(&mut turning, FULL_CIRCLE);
    enqueue_across_a_turn(env, &mut client, &mut turning);
    add_workers(env, 2);
    env.add(ProcessSpec::enqueuer(200, JobMix::Instant));
    for _ in 0..3 {
        env.pass(Duration::from_millis(300));
        enqueue_across_a_turn(env, &mut client, &mut turning);
    }
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
                "UPDATE redrive.ring_segments
                 SET drained_at = drained_at - interval '10 seconds', retry_at = '-infinity'
                 WHERE segment = ANY (ARRAY(
                     SELECT segment FROM redrive.ring_segments FOR UPDATE SKIP LOCKED))",
            )
            .expect("age the segments");
    }
}

/// Enqueues a job and turns the ring before the commit.
fn enqueue_across_a_turn(env: &mut Environment, client: &mut Client, turning: &mut Connection) {
    // A turn waits for more than its lock timeout of 50 ms.
    let waits = "SELECT EXISTS (SELECT FROM pg_locks
                 WHERE NOT granted AND mode = 'AccessExclusiveLock'
                     AND waitstart < clock_timestamp() - interval '200 milliseconds')";
    let (mut enqueuing, mut observer) = (env.client(), env.client());
    let name = "SET application_name = 'client'";
    enqueuing.batch_execute(name).expect("name the connection");
    let transaction = enqueuing.transaction().expect("begin");
    client.enqueue_in(transaction, |transaction| {
        thread::scope(|scope| {
            let turns = scope.spawn(|| turn(turning, FULL_CIRCLE));
            // Correct code gives up its lock at once and finishes.
            env.wait_for("a turn waits for the transaction or has passed it", |_| {
                turns.is_finished() || ask(&mut observer, waits)
            });
            transaction.commit().expect("commit");
        });
    });
}

/// The gateway is down until a probe has failed and every worker knows of the breaker. Then jobs are
/// enqueued, and the gateway comes back.
pub(super) fn outage(env: &mut Environment) {
    let breaker = |condition: &str| {
        format!("EXISTS (SELECT FROM chaos.breakers WHERE name = 'gateway' AND {condition})")
    };
    let dependent = |work: &_| NewJob::new(&DependentWork(Clone::clone(work)));
    gateway::break_down(env.folder());
    let mut client = Client::open(env, "client");
    add_workers(env, 2);
    let mut ids = client.enqueue_as(&[Plan::Done; DEPENDENT], dependent);
    env.wait_for_sql("the breaker opens", &breaker("true"));
    let since = last_renewal(env);
    env.wait_for_sql(
        "both workers read the breakers",
        &have_renewed(env, &[0, 1], RENEWALS, since),
    );
    ids.extend(client.enqueue_as(&[Plan::Done; DEPENDENT], dependent));
    env.wait_for_sql("a probe fails", &breaker("probes > 0 AND state = 'open'"));
    gateway::mend(env.folder());
    env.wait_for_sql("the jobs end", &have_ended(&ids));
}

/// All schedules tick. Two of them are paused until several ticks are due, and one is triggered.
pub(super) fn scheduled(env: &mut Environment) {
    const PAUSED: [&str; 2] = ["chaos-once", "chaos-skip"];
    // This many schedules have a tick with this outcome.
    let have_ticked = |schedules: usize, outcome: &str| {
        format!(
            "(SELECT count(DISTINCT schedule) >= {schedules} FROM redrive.schedule_ticks
              WHERE outcome = '{outcome}')"
        )
    };
    let client = Client::open(env, "client");
    standing::set_schedules(client.database(), &client.ops.operator).expect("set the schedules");
    serve_all(env, 1);
    env.wait_for_sql("all schedules tick", &have_ticked(4, "fired"));
    env.wait_for_sql("a tick overlaps", &have_ticked(1, "overlapped"));
    for name in PAUSED {
        client.ops.pause_schedule(name, true);
    }
    env.wait_for_sql(
        "three ticks are due",
        "(SELECT bool_and(next_at + 3 * every < clock_timestamp()) FROM redrive.schedules
          WHERE paused_at IS NOT NULL)",
    );
    for name in PAUSED {
        client.ops.pause_schedule(name, false);
    }
    env.wait_for_sql("the ticks are missed", &have_ticked(2, "missed"));
    client.ops.trigger("chaos-once");
    client.ops.trigger("chaos-overlap");
}
