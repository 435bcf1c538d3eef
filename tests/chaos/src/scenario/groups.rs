//! Scenarios about groups: order, limits, turns, and what the letter of a dead job holds.

use std::time::Duration;

use super::conditions::{are_claimed, have_ended, letters_are};
use crate::client::Client;
use crate::environment::Environment;
use crate::processes::ProcessSpec;
use crate::role::groups::{DIVERTED, FAIR, HELD, LIMITED, ORDERED};
use crate::role::{Plan, Serves};

/// Longer than the checker allows a commit to take until others see it.
const SEEN: Duration = Duration::from_millis(600);
/// Enough jobs that one worker claims more than 20 times from their group.
const MANY: usize = 120;
/// How long each of them runs, in milliseconds: one claim takes few.
const RUN: u64 = 30;

/// The jobs of a group whose followers some job stops.
const FOLLOWERS: usize = 40;

fn add_workers(env: &mut Environment, count: usize) {
    for _ in 0..count {
        env.add(ProcessSpec {
            serves: Serves::Groups,
            ..ProcessSpec::worker()
        });
    }
}

/// Each policy has groups whose jobs fail, run in transactions, die, and are redriven or released.
pub(super) fn groups(env: &mut Environment) {
    env.set_group_policies();
    let mut ordered = Client::open_queue(env, "ordered-client", ORDERED);
    let mut limited = Client::open_queue(env, "limited-client", LIMITED);
    let mut held = Client::open_queue(env, "held-client", HELD);
    let mut diverted = Client::open_queue(env, "diverted-client", DIVERTED);
    let mut ids = ordered.enqueue_grouped("a", &[Plan::Retry, Plan::Done, Plan::Snooze], 0);
    ids.extend(ordered.enqueue_grouped_transactional("b", &[Plan::Done, Plan::Retry, Plan::Done]));
    let together = limited.enqueue_grouped("a", &[Plan::Hold; 4], 0);
    let first = held.enqueue_grouped("a", &[Plan::Reject, Plan::Done, Plan::Done], 0);
    let lasting = held.enqueue_grouped("b", &[Plan::RejectAlways, Plan::Done], 0);
    let behind = diverted.enqueue_grouped("a", &[Plan::Reject, Plan::Done, Plan::Done], 0);
    env.pass(SEEN);
    add_workers(env, 2);
    env.wait_for_sql("the ordered jobs end", &have_ended(&ids));
    env.wait_for_sql("two jobs run", &at_least_claimed(&together, 2));
    env.open_all_gates();
    env.wait_for_sql("the limited jobs end", &have_ended(&together));

    // One of each held group, and all of the diverted one.
    env.wait_for_sql("five letters are open", &letters_are(5, "open"));
    held.release("b");
    env.wait_for_sql("the released job ends", &have_ended(&lasting));
    held.redrive(1);
    env.wait_for_sql("the held jobs end", &have_ended(&first));
    diverted.redrive(1);
    env.wait_for_sql("the next letter holds the group", &is_held_by(behind[1]));
    let later = diverted.enqueue_grouped("a", &[Plan::Done], 0);
    env.wait_for_sql("a later job is diverted", &have_ended(&later));
    diverted.redrive(100);
    env.wait_for_sql("the diverted letters recover", &letters_are(5, "recovered"));
}

/// At least this many of these jobs were claimed.
fn at_least_claimed(ids: &[i64], count: usize) -> String {
    let claimed: Vec<String> = ids
        .iter()
        .map(|id| format!("{}::integer", are_claimed(&[*id])))
        .collect();
    format!("{} >= {count}", claimed.join(" + "))
}

/// The letter holds its group.
fn is_held_by(letter: i64) -> String {
    format!(
        "EXISTS (SELECT FROM redrive.group_slots WHERE job_id = {letter} AND held_at IS NOT NULL)"
    )
}

/// A group has many jobs when another one gets its only job.
pub(super) fn fair(env: &mut Environment) {
    env.set_group_policies();
    let mut client = Client::open_queue(env, "client", FAIR);
    client.enqueue_grouped("a", &[Plan::Done; MANY], RUN);
    let ids = client.enqueue_grouped("b", &[Plan::Done], 0);
    env.pass(SEEN);
    env.add(ProcessSpec {
        serves: Serves::Groups,
        slots: 1,
        ..ProcessSpec::worker()
    });
    env.wait_for_sql("the job of the other group ends", &have_ended(&ids));
}

/// Another session has locked the first job of a group while a worker claims jobs.
pub(super) fn locked_head(env: &mut Environment) {
    env.set_group_policies();
    let mut client = Client::open_queue(env, "client", ORDERED);
    let ids = client.enqueue_grouped("a", &[Plan::Done, Plan::Done], 0);
    let mut locker = env.client();
    let mut lock = locker.transaction().expect("begin");
    lock.execute(
        "SELECT FROM redrive.jobs_waiting WHERE id = $1 FOR UPDATE",
        &[&ids[0]],
    )
    .expect("lock a job");
    env.pass(SEEN);
    add_workers(env, 1);
    for _ in 0..3 {
        let after = client.enqueue_grouped("b", &[Plan::Done], 0);
        env.wait_for_sql("a job of another group ends", &have_ended(&after));
    }
    lock.rollback().expect("unlock the job");
    env.wait_for_sql("the jobs end", &have_ended(&ids));
}

/// A worker that has found its jobs to be fast claims them with their followers, some of which fail, die or wait.
pub(super) fn followers(env: &mut Environment) {
    env.set_group_policies();
    let mut ordered = Client::open_queue(env, "ordered-client", ORDERED);
    let mut limited = Client::open_queue(env, "limited-client", LIMITED);
    let mut held = Client::open_queue(env, "held-client", HELD);
    for _ in 0..2 {
        env.add(ProcessSpec {
            serves: Serves::Groups,
            slots: 2,
            ..ProcessSpec::worker()
        });
    }
    for round in 0..4 {
        // One job in ten stops its followers.
        let stops = [Plan::Retry, Plan::Snooze, Plan::Reject];
        let mut plans = vec![Plan::Done; FOLLOWERS];
        for at in (9..FOLLOWERS).step_by(10) {
            plans[at] = stops[(at / 10 + round) % 3];
        }
        let mut ids = ordered.enqueue_grouped("a", &plans, 0);
        ids.extend(ordered.enqueue_grouped("b", &plans, 0));
        ids.extend(limited.enqueue_grouped("a", &plans, 0));
        let mut last = vec![Plan::Done; FOLLOWERS];
        last[FOLLOWERS - 10] = Plan::Reject;
        let group = format!("held-{round}");
        ids.extend(&held.enqueue_grouped(&group, &last, 0)[..FOLLOWERS - 9]);
        env.wait_for_sql("the fast jobs end", &have_ended(&ids));
        held.redrive(1);
    }
    let slow = ordered.enqueue_grouped("c", &[Plan::Done, Plan::Hold, Plan::Done, Plan::Done], 0);
    env.wait_for_sql("the slow job runs", &are_claimed(&slow[1..2]));
    env.open_all_gates();
    env.wait_for_sql("the jobs behind it end", &have_ended(&slow));
}
