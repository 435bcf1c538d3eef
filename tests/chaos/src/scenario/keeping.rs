//! Scenarios about jobs that wait, breakers, and how long letters are kept.

use super::add_workers;
use super::conditions::{LAST_RENEWAL, has_renewed, have_ended, letters_are};
use crate::client::Client;
use crate::environment::Environment;
use crate::role::Plan;

/// Enough jobs that one worker meets outages in a row.
const DEPENDENT: usize = 12;
/// Renewals after which a worker has read the breakers, and more than the checker needs.
const RENEWALS: u32 = 8;
/// More letters than a tick of the policy redrives.
const LETTERS: usize = 5;

/// The gateway is down until a probe has failed and every worker knows of the breaker. Then jobs are
/// enqueued, and the gateway comes back.
pub(super) fn outage(env: &mut Environment) {
    env.break_gateway();
    let mut client = Client::open(env, "client");
    add_workers(env, 2);
    let mut ids = client.enqueue_dependent(DEPENDENT);
    env.wait_for_sql(
        "the breaker opens",
        "EXISTS (SELECT FROM chaos.breakers WHERE name = 'gateway')",
    );
    let since: i64 = env
        .client()
        .query_one(LAST_RENEWAL, &[])
        .expect("read the renewals")
        .get(0);
    let renewed = [0, 1].map(|worker| has_renewed(&env.processes.name(worker), RENEWALS, since));
    env.wait_for_sql("both workers read the breakers", &renewed.join(" AND "));
    ids.extend(client.enqueue_dependent(DEPENDENT));
    env.wait_for_sql(
        "a probe fails",
        "EXISTS (SELECT FROM chaos.breakers WHERE name = 'gateway' AND probes > 0 AND state = 'open')",
    );
    env.mend_gateway();
    env.wait_for_sql("the jobs end", &have_ended(&ids));
}

/// A paused queue has a job that expires, one without a worker, one that is raised and one with a key that is
/// erased.
pub(super) fn wait(env: &mut Environment) {
    let mut client = Client::open(env, "client");
    client.pause();
    let ids = client.enqueue_waiting();
    let keyed = client.enqueue_unique("key", Plan::Done);
    add_workers(env, 1);
    client.erase(keyed);
    env.wait_for_sql("the job without a worker dies", &have_ended(&ids[1..2]));
    env.wait_for_sql(
        "a job is raised",
        "EXISTS (SELECT FROM chaos.trace WHERE place = 'r' AND change = 'i' AND priority = 20)",
    );
    client.resume();
    env.wait_for_sql("the jobs end", &have_ended(&ids));
}

/// Letters with secrets are archived and restored, or deleted, and those that are not old enough stay. Then a
/// policy redrives them.
pub(super) fn keep(env: &mut Environment) {
    env.redact();
    let mut client = Client::open(env, "client");
    add_workers(env, 1);
    let ids = client.enqueue_secret(LETTERS);
    let plain = client.enqueue(&[Plan::Reject; LETTERS]);
    env.wait_for_sql("the letters are open", &letters_are(2 * LETTERS, "open"));
    client.discard(ids[0]);
    env.age(&format!(
        "UPDATE redrive.dead_letters
         SET died_at = died_at - interval '1 hour', changed_at = changed_at - interval '1 hour'
         WHERE id IN ({}, {}, {})",
        ids[0], ids[1], plain[0]
    ));
    client.apply_retention();
    client.restore();
    client.set_policy();
    env.wait_for_sql("the redriven jobs succeed", &have_recovered(&plain));
}

fn have_recovered(ids: &[i64]) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    format!(
        "(SELECT count(*) >= {} FROM chaos.trace
          WHERE place = 'x' AND change = 'u' AND state = 'recovered' AND job IN ({}))",
        ids.len(),
        ids.join(", ")
    )
}
