//! Scenarios about groups: order, limits, turns, and what the letter of a dead job holds.

use super::conditions::{
    are_claimed, at_least_claimed, have_ended, have_left_a_lease, letters_are,
};
use super::jobs::SEEN;
use super::serve_all;
use crate::client::{Client, grouped, grouped_transactional};
use crate::environment::Environment;
use crate::processes::ProcessSpec;
use crate::role::Plan;
use crate::role::groups::{DIVERTED, HELD, LIMITED, ORDERED};

/// The jobs of a group whose followers some job stops.
const FOLLOWERS: usize = 40;

/// Each policy has groups whose jobs fail, run in transactions, die, and are redriven or released.
pub(super) fn groups(env: &mut Environment) {
    use Plan::{Done, Hold, Reject, RejectAlways, Retry, Snooze};
    env.set_group_policies();
    let mut ordered = Client::open_queue(env, "ordered-client", ORDERED);
    let mut limited = Client::open_queue(env, "limited-client", LIMITED);
    let mut held = Client::open_queue(env, "held-client", HELD);
    let mut diverted = Client::open_queue(env, "diverted-client", DIVERTED);
    let mut ids = ordered.enqueue_as(&[Retry, Done, Snooze], grouped("a"));
    ids.extend(ordered.enqueue_as(&[Done, Retry, Done], grouped_transactional("b")));
    let together = limited.enqueue_as(&[Hold; 4], grouped("a"));
    let first = held.enqueue_as(&[Reject, Done, Done], grouped("a"));
    let lasting = held.enqueue_as(&[RejectAlways, Done], grouped("b"));
    let behind = diverted.enqueue_as(&[Reject, Done, Done], grouped("a"));
    env.pass(SEEN);
    serve_all(env, 2);
    env.wait_for_sql("the ordered jobs end", &have_ended(&ids));
    env.wait_for_sql("two jobs run", &at_least_claimed(&together, 2));
    env.open_all_gates();
    env.wait_for_sql("the limited jobs end", &have_ended(&together));

    // One of each held group, and all of the diverted one.
    env.wait_for_sql("five letters are open", &letters_are(5, "open"));
    held.ops.release(HELD, "b");
    env.wait_for_sql("the released job ends", &have_ended(&lasting));
    held.redrive(1);
    env.wait_for_sql("the held jobs end", &have_ended(&first));
    diverted.redrive(1);
    let letter = behind[1];
    let holds = "FROM redrive.group_slots WHERE held_at IS NOT NULL AND job_id";
    env.wait_for_sql(
        "the next letter holds the group",
        &format!("EXISTS (SELECT {holds} = {letter})"),
    );
    let later = diverted.enqueue_as(&[Done], grouped("a"));
    env.wait_for_sql("a later job is diverted", &have_ended(&later));
    diverted.redrive(100);
    env.wait_for_sql("the diverted letters recover", &letters_are(5, "recovered"));
}

/// A worker that has found its jobs to be fast claims them with their followers, some of which fail, die or wait.
pub(super) fn followers(env: &mut Environment) {
    env.set_group_policies();
    let mut ordered = Client::open_queue(env, "ordered-client", ORDERED);
    let mut limited = Client::open_queue(env, "limited-client", LIMITED);
    let mut held = Client::open_queue(env, "held-client", HELD);
    for _ in 0..2 {
        env.add(ProcessSpec {
            serves_others: true,
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
        let mut ids = ordered.enqueue_as(&plans, grouped("a"));
        ids.extend(ordered.enqueue_as(&plans, grouped("b")));
        ids.extend(limited.enqueue_as(&plans, grouped("a")));
        let mut last = vec![Plan::Done; FOLLOWERS];
        last[FOLLOWERS - 10] = Plan::Reject;
        let of_held = held.enqueue_as(&last, grouped(&format!("held-{round}")));
        ids.extend(&of_held[..FOLLOWERS - 9]);
        env.wait_for_sql("the fast jobs end", &have_ended(&ids));
        held.redrive(1);
    }
    let plans = [Plan::Done, Plan::Hold, Plan::Done, Plan::Done];
    let slow = ordered.enqueue_as(&plans, grouped("c"));
    env.wait_for_sql("the slow job runs", &are_claimed(&slow[1..2]));
    env.wait_for_sql("its followers return", &have_left_a_lease(&slow[2..]));
    // A claim takes it after the followers, unless the slow job keeps them waiting.
    let other = ordered.enqueue_as(&[Plan::Done], grouped("d"));
    env.wait_for_sql("a job of another group ends", &have_ended(&other));
    env.open_all_gates();
    env.wait_for_sql("the jobs behind it end", &have_ended(&slow));
}
