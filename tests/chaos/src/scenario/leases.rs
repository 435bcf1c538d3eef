//! Scenarios about leases: workers that run long, stop, die or are terminated.

use std::time::Duration;

use rustix::process::Signal;

use super::add_workers;
use super::conditions::{
    LAST_RENEWAL, are_claimed, has_renewed, have_left_a_lease, is_claimed_by, is_claimed_times,
};
use crate::client::Client;
use crate::environment::Environment;
use crate::fault::Fault;
use crate::processes::ProcessSpec;
use crate::role::Plan;

/// Renewals after which a worker has certainly checked for lost leases.
const RENEWALS: u32 = 4;
/// Renewals in four leases. By then every worker has looked for lost leases; a new one waits one lease.
const RENEWALS_UNTIL_REAP: u32 = 12;
/// One more than the refunds a job may have, and two that are charged.
const TERMINATIONS: u32 = 13;

/// Two workers hold jobs for several renewals. Neither lease may be reaped.
pub(super) fn long_run(env: &mut Environment) {
    let mut client = Client::open(env, "client");
    add_workers(env, 2);
    let ids = client.enqueue(&[Plan::Hold; 4]);
    env.wait_for_sql("the jobs are claimed", &are_claimed(&ids));
    let since = last_renewal(env);
    let renewed: Vec<String> = [0, 1]
        .map(|worker| has_renewed(&env.processes.name(worker), RENEWALS_UNTIL_REAP, since))
        .into();
    let condition = format!(
        "{} OR {}",
        renewed.join(" AND "),
        have_left_a_lease(&ids[..1])
    );
    env.wait_for_sql("both workers check for lost leases", &condition);
}

/// The job of a stopped worker is reaped and claimed by another worker, which holds it. Then the
/// first worker continues and settles.
pub(super) fn pause(env: &mut Environment) {
    let mut client = Client::open(env, "client");
    add_workers(env, 1);
    let id = client.enqueue(&[Plan::Hold])[0];
    env.wait_for_attempt(0);
    env.freeze_worker(0);
    add_workers(env, 1);
    let other = env.processes.name(1);
    env.wait_for_sql("the other worker claims it", &is_claimed_by(id, &other));
    env.open_gate(0);
    let since = last_renewal(env);
    env.processes.signal(0, Signal::CONT);
    let renewed = has_renewed(&env.processes.name(0), RENEWALS, since);
    env.wait_for_sql("the first worker settles", &renewed);
}

/// A worker dies with a lease in which a finished and a rejected job are settled and at least two
/// others are not.
pub(super) fn kill(env: &mut Environment) {
    let mut client = Client::open(env, "client");
    // Before the worker starts, so that its first claim takes all of them.
    let ids = client.enqueue(&[Plan::Hold, Plan::Done, Plan::Reject, Plan::Hold, Plan::Hold]);
    add_workers(env, 1);
    let (finished, rejected) = (ids[1], ids[2]);
    env.wait_for_sql(
        "a lease is partly settled",
        &format!(
            "EXISTS (SELECT FROM redrive.leases
                     WHERE done @> ARRAY[{finished}, {rejected}]::bigint[]
                         AND job_count - cardinality(done) > 1)"
        ),
    );
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
        is_claimed_times(killer, redrive::limits::MAX_CRASHES + 1)
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

/// A worker without grace is terminated during every attempt at a job.
pub(super) fn release(env: &mut Environment) {
    let mut client = Client::open(env, "client");
    client.enqueue(&[Plan::Hold]);
    env.add(ProcessSpec {
        grace: Duration::ZERO,
        ..ProcessSpec::worker()
    });
    for life in 1..=TERMINATIONS {
        env.wait_for("the worker restarts", |env| env.processes.life(0) == life);
        env.wait_for_attempt(0);
        env.inject(Fault::Terminate, Duration::ZERO, 0);
    }
}

fn last_renewal(env: &Environment) -> i64 {
    let last = env.client().query_one(LAST_RENEWAL, &[]);
    last.expect("read the renewals").get(0)
}
