//! Policies: their changes while jobs wait, their checks, and SQL.

use super::claim::{Place, claim};
use super::*;

#[test]
fn a_policy_that_lets_groups_continue_waits_for_a_death_and_frees_its_group() {
    let (test, queue) = with_policy(HOLD);
    enqueue_rounds(&queue, &["a"], 2);
    let (mut client, mut worker) = (test.client(), test.client());
    assert_eq!(claim(&mut client, 1, &mut Place::default()).len(), 1);
    let mut death = worker.transaction().unwrap();
    let statement = "WITH gone AS (DELETE FROM redrive.leases l RETURNING l AS lease) \
         SELECT redrive.bury(array_agg(j), array_agg(ROW('rejected', 'C', 'm', NULL, NULL, NULL, NULL, NULL, \
                                                         NULL, NULL)::redrive.death)) \
         FROM gone g, redrive.jobs_of(g.lease) j";
    death.sql(statement);
    let change = || queue.set_group_policy(CONTINUE, &maria()).unwrap();
    held_up(&test, change, || death.commit().unwrap());
    assert_eq!(client.count("group_slots"), 0);
    run_all(&test, &queue, &[2]);
}

#[test]
fn a_policy_that_is_the_same_writes_no_audit() {
    let (test, queue) = TestDatabase::with_orders();
    let [three, four] = [3, 4].map(GroupPolicy::Limit);
    let policies = [HOLD, HOLD, three, three, four, DIVERT];
    for (policy, audits) in policies.into_iter().zip([1, 1, 2, 2, 3, 4]) {
        queue.set_group_policy(policy, &maria()).unwrap();
        assert_eq!(queue.group_policy().unwrap(), policy);
        assert_eq!(test.count("audit"), audits, "{policy:?}");
    }
}

/// A program sets it at each start.
#[test]
fn a_policy_that_is_the_same_waits_for_no_capture_in_an_open_transaction() {
    let (test, queue) = with_policy(HOLD);
    let _open = test.begins(
        r"SELECT redrive.capture('kafka', '1', 'orders', 'order', '\x7b7d', group_key => 'a')",
    );
    queue.set_group_policy(HOLD, &maria()).unwrap();
    assert_eq!(test.count("audit"), 1);
}

#[test]
fn jobs_that_wait_run_after_any_change_of_the_policy() {
    for (before, after) in [
        (CONTINUE, GroupPolicy::None),
        (CONTINUE, GroupPolicy::Limit(2)),
        (HOLD, GroupPolicy::Fair),
        (GroupPolicy::Limit(5), CONTINUE),
        (GroupPolicy::Fair, HOLD),
        (GroupPolicy::None, CONTINUE),
    ] {
        let (test, queue) = with_policy(before);
        let finished = kept::<Finished>();
        enqueue_rounds(&queue, &["a", "b"], 5);
        let mut client = test.client();
        let running = claim(&mut client, 3, &mut Place::default());
        queue.set_group_policy(after, &maria()).unwrap();
        assert_eq!(queue.group_policy().unwrap(), after);
        enqueue_rounds(&queue, &["a", "b"], 5);
        // The jobs that ran under the former policy.
        expire_leases(&mut client);
        finish(&queue, finishing(&queue, finished));
        let ran = ["a", "b"].map(|group| finished.count(group));
        assert_eq!(ran, [10, 10], "{before:?} {after:?}: {running:?}");
        assert_eq!(test.count("group_slots"), 0);
    }
}

#[test]
fn a_stricter_policy_counts_the_jobs_that_already_run() {
    let (test, queue) = with_policy(GroupPolicy::Limit(3));
    enqueue_rounds(&queue, &["a"], 6);
    let mut client = test.client();
    assert_eq!(claim(&mut client, 9, &mut Place::default()).len(), 3);
    client.sql("DELETE FROM redrive.group_slots WHERE slot = 1");
    for policy in [CONTINUE, GroupPolicy::Limit(2)] {
        queue.set_group_policy(policy, &maria()).unwrap();
        assert!(claim(&mut client, 9, &mut Place::default()).is_empty());
    }
    queue.set_group_policy(GroupPolicy::Fair, &maria()).unwrap();
    assert_eq!(claim(&mut client, 9, &mut Place::default()).len(), 3);
}

#[test]
fn a_job_that_a_transaction_adds_after_the_end_of_the_policy_still_runs() {
    let (test, queue) = with_policy(CONTINUE);
    let mut late = test.begins("");
    queue.enqueue_job_in(&mut late, order("a", 1)).unwrap();
    queue.set_group_policy(GroupPolicy::None, &maria()).unwrap();
    let finished = kept::<Finished>();
    let worker = finishing(&queue, finished);
    enqueue(&queue, "a", 2);
    drained(&queue);
    late.sql("COMMIT");
    all_end(&test, &queue, worker, finished, &[2, 1]);
}

#[test]
fn a_running_worker_learns_of_a_policy() {
    let (test, queue) = TestDatabase::with_orders();
    let finished = kept::<Finished>();
    let worker = finishing(&queue, finished);
    queue.set_group_policy(CONTINUE, &maria()).unwrap();
    enqueue_rounds(&queue, &["a"], 5);
    all_end(&test, &queue, worker, finished, &[1, 2, 3, 4, 5]);
}

#[test]
fn sql_sets_policies_and_enqueues_into_groups() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    client.sql("SELECT redrive.set_group_policy('orders', 'limit', job_limit => 2, reason => 'x')");
    assert_eq!(queue.group_policy().unwrap(), GroupPolicy::Limit(2));
    for delay in ["0", "1 hour"] {
        let enqueue = "SELECT redrive.enqueue('orders', 'order', '{\"number\": 1}', delay => $1::text::interval, \
                       group_key => 'a')";
        client.change(enqueue, &[&delay]);
    }
    assert_eq!(client.count("jobs_waiting"), 1);
    assert_eq!(client.count("jobs_delayed WHERE (meta).group_key = 'a'"), 1);
    client.refuses_each(
        "SELECT redrive.@",
        "set_group_policy('orders', 'odd')         -- the mode is 'odd'
         set_group_policy('orders', NULL)          -- the mode is NULL
         set_group_policy('orders', 'limit')       -- needs a job_limit
         set_group_policy('orders', 'fair', 3)     -- needs a job_limit
         set_group_policy('orders', 'limit', 0)    -- the job_limit is 0
         set_group_policy('orders', 'limit', 1001) -- the job_limit is 1001
         set_group_policy('orders', 'ordered', on_death => 'stop') -- on_death is 'stop'
         set_group_policy('orders', 'fair', on_death => 'hold')    -- only an ordered group
         set_group_policy('', 'fair')              -- queue
         enqueue('orders', 'order', '{}', group_key => '') -- the group is 0 bytes
         enqueue('orders', 'order', '{}', group_key => repeat('é', 101)) -- the group is 202 bytes",
    );
    let none = GroupPolicy::Limit(0);
    let error = queue.set_group_policy(none, &maria()).unwrap_err();
    assert!(error.is_invalid(), "{error}");
    has(error, "group policy of queue `orders`");
}
