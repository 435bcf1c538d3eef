//! The scenario about dead letters: how long they are kept.

use std::time::Duration;

use redrive::JobId;
use redrive::dlq::LetterFilter;

use super::add_workers;
use super::conditions::{array, have_recovered, letters_are};
use crate::client::Client;
use crate::environment::Environment;
use crate::role::operator::letters_of;
use crate::role::{Plan, QUEUE, standing};

/// Makes letters older by an hour.
fn age(env: &Environment, ids: &[i64]) {
    env.age(&format!(
        "UPDATE redrive.dead_letters
         SET died_at = died_at - interval '1 hour', changed_at = changed_at - interval '1 hour'
         WHERE id = ANY ({})",
        array(ids)
    ));
}

/// Letters are pruned, or archived and restored, and those that are not old enough or open stay. Then a policy redrives
/// them.
pub(super) fn keep(env: &mut Environment) {
    let mut client = Client::open(env, "client");
    let only = |id: i64| LetterFilter::new().ids([JobId::new(id)]);
    add_workers(env, 1);
    let ids = client.enqueue(&[Plan::Reject; 5]);
    env.wait_for_sql("the letters are open", &letters_are(5, "open"));
    client.ops.discard(&only(ids[0]));
    age(env, &ids[..2]);
    client.ops.prune(Duration::from_mins(1));
    client.ops.discard(&only(ids[2]));
    age(env, &ids[1..3]);
    client.ops.apply_retention();
    client.ops.restore(&letters_of(QUEUE));
    standing::set_policy(client.database(), &client.ops.operator).expect("set a policy");
    env.wait_for_sql("the redriven jobs succeed", &have_recovered(&ids[1..]));
}
