//! A scenario about batches.

use super::add_workers;
use super::conditions::{have_ended, is_any_claimed_times};
use crate::client::Client;
use crate::environment::Environment;
use crate::role::{MAX_ATTEMPTS, Plan};

/// Jobs of a batch fail it, end otherwise, and let it panic. A job of another batch aborts its process.
pub(super) fn batches(env: &mut Environment) {
    let mut client = Client::open(env, "client");
    // Without workers, so that the jobs are claimed together.
    let mut ids = Vec::new();
    for plans in [
        [Plan::Done, Plan::Retry, Plan::Done, Plan::Retry, Plan::Done],
        [Plan::Done, Plan::Panic, Plan::Done, Plan::Retry, Plan::Done],
        [
            Plan::Done,
            Plan::Retry,
            Plan::Reject,
            Plan::Retry,
            Plan::Done,
        ],
        [
            Plan::Snooze,
            Plan::Retry,
            Plan::Outage,
            Plan::Panic,
            Plan::Done,
        ],
    ] {
        ids.extend(client.enqueue_batch(&plans));
    }
    add_workers(env, 2);
    // Retries without a limit are a violation already.
    let condition = format!(
        "{} OR {}",
        have_ended(&ids),
        is_any_claimed_times(&ids, 2 * MAX_ATTEMPTS)
    );
    env.wait_for_sql("the jobs of the batches end", &condition);
    let ids = client.enqueue_batch(&[Plan::Done, Plan::Abort, Plan::Done, Plan::Done, Plan::Done]);
    env.wait_for_sql(
        "the job that aborts its process is a letter",
        &have_ended(&ids),
    );
}
