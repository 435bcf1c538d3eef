//! A scenario about the modes of unique keys.

use std::time::Duration;

use redrive::Replace;

use super::add_workers;
use super::conditions::is_claimed_times;
use crate::client::Client;
use crate::environment::Environment;
use crate::role::Plan;

/// Enqueues of keys with a window: on a slow machine, some windows end before the next enqueue.
const WINDOWS: usize = 5;

/// Longer than the checker allows a commit to take until others see it.
const SEEN: Duration = Duration::from_millis(600);

/// A key is enqueued again while its job runs, a delayed job is replaced in each way, and a key is enqueued again
/// within its window although its job has ended.
pub(super) fn modes(env: &mut Environment) {
    let mut client = Client::open(env, "client");
    for number in 0..WINDOWS {
        let key = format!("w{number}");
        let first = client.enqueue_in_window(&key);
        client.cancel(first);
        let second = client.enqueue_in_window(&key);
        if second > 0 {
            client.cancel(second);
        }
    }
    let delayed = client.replace("r", Replace::Both)[0];
    for replace in [Replace::Payload, Replace::Time, Replace::Both] {
        client.replace("r", replace);
    }
    client.cancel(delayed);
    let id = client.enqueue_until_started("s", Plan::Hold);
    add_workers(env, 1);
    env.wait_for_sql("the job starts", &is_claimed_times(id, 1));
    env.pass(SEEN);
    client.enqueue_until_started("s", Plan::Done);
}
