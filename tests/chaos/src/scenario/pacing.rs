//! Scenarios about when jobs start: pauses, rate limits and schedules.

use super::add_workers;
use super::conditions::{LAST_RENEWAL, has_renewed, have_ended};
use crate::client::Client;
use crate::environment::Environment;
use crate::processes::ProcessSpec;
use crate::role::groups::{PACED, RATED};
use crate::role::{Plan, Serves};

/// Renewals after which the checker expects a worker to know of a pause, and some more.
const RENEWALS: u32 = 6;
/// Jobs per second of the enqueuers for which the rate limit is set: four may start per second, and eight at once.
const RATE: u32 = 20;
/// The same for the limit of each group: five may start per second, and at once.
const GROUP_RATE: u32 = 35;
/// More jobs than start within a few seconds.
const MANY: usize = 40;

/// The queue of a worker is paused until it has certainly read that. Then jobs arrive, and the queue is resumed.
pub(super) fn paused(env: &mut Environment) {
    let mut client = Client::open(env, "client");
    add_workers(env, 1);
    let first = client.enqueue(&[Plan::Done]);
    env.wait_for_sql("the worker runs jobs", &have_ended(&first));
    client.pause();
    renews(env);
    let ids = client.enqueue(&[Plan::Done; 4]);
    renews(env);
    client.resume();
    env.wait_for_sql("the jobs end", &have_ended(&ids));
}

/// Waits until the worker has renewed several times.
fn renews(env: &mut Environment) {
    let last = env.client().query_one(LAST_RENEWAL, &[]);
    let since = last.expect("read the renewals").get(0);
    let renewed = has_renewed(&env.processes.name(0), RENEWALS, since);
    env.wait_for_sql("the worker renews", &renewed);
}

/// Two workers serve a limited queue with many jobs.
pub(super) fn rated(env: &mut Environment) {
    env.set_rate_limits(RATE);
    let mut client = Client::open_queue(env, "client", RATED);
    let ids = client.enqueue(&[Plan::Done; MANY]);
    for _ in 0..2 {
        env.add(ProcessSpec {
            serves: Serves::Groups,
            ..ProcessSpec::worker()
        });
    }
    env.wait_for_sql("the jobs end", &have_ended(&ids));
}

/// Two workers serve a queue whose groups have limits. One group has many jobs; another one and jobs without a group
/// do not wait for it.
pub(super) fn group_rated(env: &mut Environment) {
    env.set_rate_limits(GROUP_RATE);
    let mut client = Client::open_queue(env, "client", PACED);
    let hot = client.enqueue_grouped("hot", &[Plan::Done; MANY], 0);
    let mut others = client.enqueue_grouped("cold", &[Plan::Done; 2], 0);
    others.extend(client.enqueue(&[Plan::Done; 20]));
    for _ in 0..2 {
        env.add(ProcessSpec {
            serves: Serves::Groups,
            ..ProcessSpec::worker()
        });
    }
    env.wait_for_sql("the other jobs end", &have_ended(&others));
    env.wait_for_sql("the jobs of the group end", &have_ended(&hot));
}

/// All schedules tick. Two of them are paused until several ticks are due, and one is triggered.
pub(super) fn scheduled(env: &mut Environment) {
    const PAUSED: [&str; 2] = ["chaos-once", "chaos-skip"];
    let client = Client::open(env, "client");
    client.set_schedules();
    env.add(ProcessSpec {
        serves: Serves::All,
        ..ProcessSpec::worker()
    });
    env.wait_for_sql("all schedules tick", &have_ticked(4, "fired"));
    env.wait_for_sql("a tick overlaps", &have_ticked(1, "overlapped"));
    for name in PAUSED {
        client.pause_schedule(name);
    }
    env.wait_for_sql(
        "three ticks are due",
        "(SELECT bool_and(next_at + 3 * every < clock_timestamp()) FROM redrive.schedules
          WHERE paused_at IS NOT NULL)",
    );
    for name in PAUSED {
        client.resume_schedule(name);
    }
    env.wait_for_sql("the ticks are missed", &have_ticked(2, "missed"));
    client.trigger("chaos-once");
    client.trigger("chaos-overlap");
}

/// This many schedules have a tick with this outcome.
fn have_ticked(schedules: usize, outcome: &str) -> String {
    format!(
        "(SELECT count(DISTINCT schedule) >= {schedules} FROM redrive.schedule_ticks WHERE outcome = '{outcome}')"
    )
}
