//! Scenarios about leases: workers that run long, stop, die or are terminated, and what their jobs carry.

use std::time::Duration;

use rustix::process::Signal;

use super::add_workers;
use super::conditions::{
    are_claimed, have_ended, have_left_a_lease, have_renewed, is_claimed_by, is_claimed_times,
    last_renewal, letters_are,
};
use super::jobs::turn;
use crate::client::{Client, delayed, with_header};
use crate::environment::Environment;
use crate::fault::Fault;
use crate::processes::ProcessSpec;
use crate::role::Plan;

/// Renewals after which a worker has certainly checked for lost leases.
const RENEWALS: u32 = 4;
/// Renewals in four leases. By then every worker has looked for lost leases; a new one waits one lease.
const RENEWALS_UNTIL_REAP: u32 = 12;
/// The segments of the ring.
const SEGMENTS: usize = 8;
/// Deaths of the same error after a redrive that quarantine a letter.
const ALIKE: usize = 3;

/// Two workers hold jobs for several renewals. Neither lease may be reaped. Once a job was reaped twice, attempts at it
/// overlap.
pub(super) fn long_run(env: &mut Environment) {
    let mut client = Client::open(env, "client");
    add_workers(env, 2);
    let ids = client.enqueue(&[Plan::Hold; 4]);
    env.wait_for_sql("the jobs are claimed", &are_claimed(&ids));
    let renewed = have_renewed(env, &[0, 1], RENEWALS_UNTIL_REAP, last_renewal(env));
    let condition = format!("{renewed} OR EXISTS (SELECT FROM chaos.trace WHERE crashes > 1)");
    env.wait_for_sql("both workers check for lost leases", &condition);
}

/// The job of a stopped worker is reaped and claimed by another worker, which holds it. Then the
/// first worker continues and settles.
pub(super) fn pause(env: &mut Environment) {
    let mut client = Client::open(env, "client");
    add_workers(env, 1);
    let id = client.enqueue(&[Plan::Hold])[0];
    env.wait_for_held(0, &[(id, 1)]);
    env.freeze_worker(0);
    add_workers(env, 1);
    let other = env.processes.name(1);
    env.wait_for_sql("the other worker claims it", &is_claimed_by(id, &other));
    env.open_gate(0);
    let since = last_renewal(env);
    env.processes.signal(0, Signal::CONT);
    env.wait_for_sql(
        "the first worker settles",
        &have_renewed(env, &[0], RENEWALS, since),
    );
}

/// A worker dies with a lease in which a finished and a rejected job are settled and at least two
/// others are not. One of these was cancelled.
pub(super) fn kill(env: &mut Environment) {
    use Plan::{Done, Hold, Reject};
    let mut client = Client::open(env, "client");
    // Before the worker starts, so that its first claim takes all of them.
    let ids = client.enqueue(&[Hold, Done, Reject, Hold, Hold]);
    add_workers(env, 1);
    let condition = format!(
        "EXISTS (SELECT FROM redrive.leases
                 WHERE done @> ARRAY[{}, {}]::bigint[] AND job_count - cardinality(done) > 1)",
        ids[1], ids[2]
    );
    env.wait_for_sql("a lease is partly settled", &condition);
    client.ops.cancel(ids[3]);
    env.inject(Fault::Kill, Duration::ZERO, 0);
    env.wait_for_sql("the lease is reaped", &have_left_a_lease(&ids));
}

/// A job aborts its worker while three others share its lease: all four become suspects at once.
/// Then it aborts until it is a letter.
pub(super) fn poison(env: &mut Environment) {
    let mut client = Client::open(env, "client");
    let ids = client.enqueue(&[Plan::Hold, Plan::Hold, Plan::Hold, Plan::Abort]);
    let killer = ids[3];
    add_workers(env, 2);
    env.wait_for_sql("the lease is reaped", &have_left_a_lease(&[killer]));
    // On its last chance the killer runs alone, so the held ones must end before.
    env.open_all_gates();
    let condition = format!(
        "EXISTS (SELECT FROM redrive.dead_letters WHERE id = {killer}) OR {}",
        is_claimed_times(&[killer], redrive::limits::MAX_CRASHES + 1)
    );
    env.wait_for_sql("the killer dies", &condition);
}

/// A worker that is older than a lease and has renewed. Beside it, a new worker reaps at once.
const OLDER_WORKER: &str = "INSERT INTO redrive.workers
        (worker_id, queue, host, pid, version, slots, started_at, expires_at)
    SELECT gen_random_uuid(), w.queue, w.host, w.pid, w.version, w.slots,
           clock_timestamp() - interval '1 hour', clock_timestamp() + interval '1 hour'
    FROM redrive.workers w";

/// The server restarts while a worker is stopped, and the worker's lease has expired when another
/// worker checks. The other worker must wait for the grace period after the restart.
pub(super) fn restart(env: &mut Environment) {
    let mut client = Client::open(env, "client");
    add_workers(env, 1);
    let ids = client.enqueue(&[Plan::Hold]);
    env.wait_for_sql("the job is claimed", &are_claimed(&ids));
    env.freeze_worker(0);
    env.inject(Fault::Crash, Duration::ZERO, 0);
    env.age("UPDATE redrive.workers SET expires_at = clock_timestamp() - interval '1 second'");
    env.age(OLDER_WORKER);
    add_workers(env, 1);
    env.wait_for_sql("the lease is reaped", &have_left_a_lease(&ids));
}

/// The ring moves a job from a segment to another one. A job with a history and a job without one are released and
/// reaped during an attempt, and then fail or succeed. A delayed job is cancelled. A letter dies until it is
/// quarantined; then it is redriven without force.
pub(super) fn carry(env: &mut Environment) {
    let mut client = Client::open(env, "client");
    // No segment is clean at the last turn, so that the ring moves a job.
    let mut turning = env.client();
    for _ in 0..=SEGMENTS {
        client.enqueue(&[Plan::Done]);
        turn(&mut turning, 1);
    }
    // It waits for no handler when it stops.
    env.add(ProcessSpec {
        grace: Duration::ZERO,
        ..ProcessSpec::worker()
    });
    let ids = client.enqueue_as(&[Plan::RetryThenHold, Plan::HoldThenRetry], with_header);
    let held = [(ids[0], 2), (ids[1], 1)];
    for (fault, life) in [(Fault::Terminate, 2), (Fault::Kill, 3)] {
        env.wait_for_held(0, &held);
        env.inject(fault, Duration::ZERO, 0);
        env.wait_for("the worker restarts", |env| env.processes.life(0) == life);
    }
    env.wait_for_held(0, &held);
    env.open_all_gates();
    env.wait_for_sql("the jobs end", &have_ended(&ids));

    client.enqueue_as(&[Plan::RejectAlways], with_header);
    for _ in 0..ALIKE {
        env.wait_for_sql("the letter is open", &letters_are(1, "open"));
        client.redrive(1);
    }
    env.wait_for_sql("the letter is quarantined", &letters_are(1, "quarantined"));
    client.redrive(1);

    let late = client.enqueue_as(&[Plan::Done], delayed)[0];
    client.ops.cancel(late);
}
