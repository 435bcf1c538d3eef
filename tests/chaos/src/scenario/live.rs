//! A scenario about bulk changes of waiting jobs.

use super::conditions::have_ended;
use crate::client::Client;
use crate::environment::Environment;
use crate::history::LiveChange;
use crate::processes::ProcessSpec;
use crate::role::groups::ORDERED;
use crate::role::{Plan, Serves};

/// Jobs are delayed in two queues, and others wait for their group in one of them. The jobs of a queue get another
/// priority and payload and run at once, while those of the other queue wait. The last one is cancelled.
pub(super) fn live(env: &mut Environment) {
    env.set_group_policies();
    let mut client = Client::open(env, "client");
    let mut ordered = Client::open_queue(env, "ordered-client", ORDERED);
    let ids = [client.enqueue_delayed(), client.enqueue_delayed()];
    let mut grouped = ordered.enqueue_delayed_in("a", 2);
    grouped.extend(ordered.enqueue_grouped("a", &[Plan::Done; 2], 0));
    for queue in [&client, &ordered] {
        queue.change_jobs(LiveChange::Priority(1));
        queue.change_jobs(LiveChange::Edit(7));
    }
    client.change_jobs(LiveChange::RunNow);
    env.add(ProcessSpec {
        serves: Serves::All,
        ..ProcessSpec::worker()
    });
    env.wait_for_sql("the jobs of the first queue end", &have_ended(&ids));
    ordered.change_jobs(LiveChange::RunNow);
    env.wait_for_sql("the jobs of the group end", &have_ended(&grouped));
    ordered.enqueue_delayed_in("b", 1);
    ordered.change_jobs(LiveChange::Cancel);
}
