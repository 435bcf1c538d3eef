//! Followers: jobs that are claimed with the job that has the turn of their group, and run after it.

use super::claim::{Place, claim};
use super::*;

/// Claims up to `limit` jobs, with up to ten jobs of a group in a row. Returns their ids in their order.
fn claim_in_a_row(client: &mut Client, limit: i64) -> Vec<i64> {
    claim_in_rows_of(10, client, limit)
}

fn claim_in_rows_of(in_a_row: i32, client: &mut Client, limit: i64) -> Vec<i64> {
    let mut place = Place {
        in_a_row,
        ..Place::default()
    };
    let mut claimed = claim(client, limit, &mut place);
    claimed.sort_unstable();
    claimed
}

/// A queue with these jobs of one group.
fn with_jobs(policy: GroupPolicy, count: i64) -> (TestDatabase, Queue, Vec<i64>) {
    let (test, queue) = with_policy(policy);
    let ids = enqueue_rounds(&queue, &["a"], count);
    let ids = ids.iter().map(|id| id.get()).collect();
    (test, queue, ids)
}

/// The jobs that have a turn, in the order of their slots.
fn turns(client: &mut Client) -> Vec<i64> {
    client.column("SELECT job_id FROM redrive.group_slots ORDER BY slot", &[])
}

fn waits(client: &mut Client) -> Vec<i64> {
    client.column("SELECT id FROM redrive.jobs_waiting ORDER BY id", &[])
}

/// The ready jobs that wait for no group.
fn ready(client: &mut Client) -> Vec<i64> {
    let ready = "SELECT id FROM redrive.jobs WHERE segment < 8 ORDER BY id";
    client.column(ready, &[])
}

/// The lease of a job.
fn lease(client: &mut Client, job: i64) -> Uuid {
    let query = "SELECT lease_id FROM redrive.leases WHERE $1 = ANY (ids)";
    client.ask(query, &[&job])
}

/// Settles jobs of one lease with these verdicts and a delay of an hour.
fn settle(client: &mut Client, verdicts: &[(i64, &str)]) {
    settle_after(client, verdicts, 3_600_000);
}

fn settle_after(client: &mut Client, verdicts: &[(i64, &str)], delay_ms: i64) {
    let lease = lease(client, verdicts[0].0);
    let of_each = verdicts.iter().map(|(job, word)| {
        let cause = (*word == "dead").then_some("rejected");
        (*job, *word, cause)
    });
    let settlement = Settlement {
        queue: "orders",
        lease,
        verdicts: &of_each.collect::<Vec<_>>(),
        delay_ms,
        counts: &[],
    };
    let written = settlement.write(client);
    assert_eq!(written.len(), verdicts.len(), "every verdict is written");
}

#[test]
fn a_full_claim_takes_ten_jobs_of_each_group_before_more() {
    let (test, queue) = with_policy(CONTINUE);
    let mut client = test.client();
    let ids = enqueue_rounds(&queue, &["a", "b", "c"], 12);
    let of_group = |group: usize| ids[group..].iter().step_by(3).map(|id| id.get());
    let expected: Vec<i64> = of_group(0).take(10).chain(of_group(1).take(10)).collect();
    let mut claimed = claim_in_a_row(&mut client, 20);
    claimed.sort_unstable_by_key(|id| expected.iter().position(|other| other == id));
    assert_eq!(claimed, expected);
}

#[test]
fn the_turn_passes_to_the_first_job_that_is_not_done() {
    let (test, _, ids) = with_jobs(HOLD, 6);
    let mut client = test.client();
    assert_eq!(claim_in_a_row(&mut client, 5), ids[..5]);
    settle(&mut client, &[(ids[0], "done"), (ids[1], "done")]);
    assert_eq!(turns(&mut client), [ids[2]]);
    // Followers that were not started wait again, behind the job that has the turn.
    settle_after(&mut client, &[(ids[4], "unrun")], 0);
    assert_eq!(waits(&mut client), ids[4..]);
    settle(&mut client, &[(ids[3], "retry"), (ids[2], "done")]);
    // A job in backoff keeps the turn.
    assert_eq!(turns(&mut client), [ids[3]]);
    assert!(claim_in_a_row(&mut client, 5).is_empty());
}

#[test]
fn a_dead_follower_holds_its_group_or_passes_the_turn() {
    for (policy, expected) in [(HOLD, 1), (CONTINUE, 2)] {
        let (test, queue, ids) = with_jobs(policy, 4);
        let mut client = test.client();
        assert_eq!(claim_in_a_row(&mut client, 3), ids[..3]);
        settle(&mut client, &[(ids[1], "dead"), (ids[0], "done")]);
        assert_eq!(turns(&mut client), [ids[expected]], "{policy:?}");
        release(&mut client, ids[2]);
        let held = queue.held_groups(10).unwrap();
        match policy == HOLD {
            true => {
                assert_eq!(waits(&mut client), ids[2..]);
                assert_eq!(held[0].letter.get(), ids[1]);
                assert!(claim_in_a_row(&mut client, 5).is_empty());
            }
            false => {
                assert_eq!(ready(&mut client), [ids[2]], "it has the turn");
                assert_eq!(waits(&mut client), ids[3..]);
                assert!(held.is_empty());
            }
        }
    }
}

/// Releases the lease of a job that was not started.
fn release(client: &mut Client, job: i64) {
    let lease = lease(client, job);
    Hand::of("orders").releases(client, Some(&[lease]), Some(&[]));
}

#[test]
fn a_follower_that_runs_again_at_once_takes_the_turn() {
    for policy in [CONTINUE, GroupPolicy::Limit(1)] {
        let (test, _, ids) = with_jobs(policy, 3);
        let mut client = test.client();
        assert_eq!(claim_in_a_row(&mut client, 2), ids[..2]);
        settle_after(&mut client, &[(ids[0], "done"), (ids[1], "snooze")], 0);
        assert_eq!(turns(&mut client), [ids[1]]);
        assert_eq!(ready(&mut client), [ids[1]]);
        assert_eq!(waits(&mut client), ids[2..]);
    }
}

#[test]
fn a_released_lease_puts_its_followers_behind_the_job_with_the_turn() {
    let (test, _, ids) = with_jobs(CONTINUE, 4);
    let mut client = test.client();
    assert_eq!(claim_in_a_row(&mut client, 3), ids[..3]);
    release(&mut client, ids[0]);
    assert_eq!(ready(&mut client), [ids[0]]);
    assert_eq!(waits(&mut client), ids[1..]);
    assert_eq!(turns(&mut client), [ids[0]]);
}

#[test]
fn the_followers_of_a_lost_worker_are_suspects_that_run_alone() {
    let (test, _, ids) = with_jobs(CONTINUE, 4);
    let mut client = test.client();
    assert_eq!(claim_in_a_row(&mut client, 3), ids[..3]);
    assert_eq!(reap(&mut client).len(), 3);
    assert_eq!(ready(&mut client), ids[..1]);
    assert_eq!(waits(&mut client), ids[1..]);
    // The first job ends.
    client.sql("DELETE FROM redrive.jobs WHERE segment < 8; DELETE FROM redrive.group_slots");
    for suspect in [ids[1], ids[2]] {
        assert_eq!(claim_in_a_row(&mut client, 10), [suspect]);
        settle(&mut client, &[(suspect, "done")]);
    }
    assert_eq!(claim_in_a_row(&mut client, 10), ids[3..]);
}

#[test]
fn a_locked_job_stops_the_jobs_behind_it() {
    let (test, _, ids) = with_jobs(CONTINUE, 4);
    let lock = format!("SELECT FROM redrive.jobs WHERE id = {} FOR UPDATE", ids[1]);
    let _operator = test.begins(&lock);
    assert_eq!(claim_in_a_row(&mut test.client(), 10), ids[..1]);
}

#[test]
fn the_jobs_of_a_limited_group_share_its_slots() {
    let (test, _, ids) = with_jobs(GroupPolicy::Limit(2), 7);
    let mut client = test.client();
    assert_eq!(claim_in_rows_of(3, &mut client, 6), ids[..6]);
    assert_eq!(turns(&mut client), ids[..2]);
    assert!(claim_in_a_row(&mut client, 6).is_empty());
    // The slot of a job in backoff passes to a follower, too.
    settle(&mut client, &[(ids[0], "retry"), (ids[1], "done")]);
    assert_eq!(turns(&mut client), ids[2..4]);
    let rest: Vec<(i64, &str)> = ids[2..6].iter().map(|id| (*id, "done")).collect();
    settle(&mut client, &rest);
    assert!(turns(&mut client).is_empty());
    assert_eq!(claim_in_a_row(&mut client, 6), ids[6..]);
}

#[test]
fn limited_groups_use_no_more_slots_than_there_are_rows_of_jobs() {
    for (groups, in_a_row, slots) in [
        // 20 jobs are four rows of five, so each of four groups needs one slot.
        (&["a", "b", "c", "d"][..], 5, 4),
        (&["a", "b"], 5, 4),
        (&["a", "b", "c"], 5, 6),
        (&["a"], 5, 3),
        (&["a", "b"], 10, 2),
        // Without followers, each job needs a slot.
        (&["a", "b"], 1, 6),
    ] {
        let (test, queue) = with_policy(GroupPolicy::Limit(3));
        enqueue_rounds(&queue, groups, 20);
        let mut client = test.client();
        let claimed = claim_in_rows_of(in_a_row, &mut client, 20);
        assert_eq!(turns(&mut client).len(), slots, "{groups:?} {in_a_row}");
        let jobs = if in_a_row == 1 { slots } else { 20 };
        assert_eq!(claimed.len(), jobs, "{groups:?} {in_a_row}");
    }
}

#[test]
fn groups_whose_jobs_are_diverted_or_under_a_rate_limit_have_no_followers() {
    for is_limited in [false, true] {
        let policy = if is_limited { CONTINUE } else { DIVERT };
        let (test, _queue, ids) = with_jobs(policy, 3);
        if is_limited {
            test.sql("SELECT redrive.set_rate_limit('orders', 1000, each_group => true)");
        }
        let mut client = test.client();
        assert_eq!(claim_in_a_row(&mut client, 10), ids[..1], "{policy:?}");
    }
}

#[test]
fn jobs_that_run_in_batches_have_no_followers_and_follow_none() {
    let limit = GroupPolicy::Limit(3);
    for (policy, batched, claimed) in [
        (CONTINUE, "mail", 2),
        (CONTINUE, "order", 1),
        (CONTINUE, "other", 4),
        // Each takes one of the three slots, if its group has one left.
        (limit, "mail", 3),
        (limit, "order", 3),
    ] {
        let (test, queue) = with_policy(policy);
        let jobs = ["order", "order", "mail", "order"];
        let jobs = jobs.map(|kind| NewJob::raw(kind, "{}").unwrap().group("a"));
        let ids = ids(&queue.enqueue_jobs(&jobs).unwrap());
        let mut place = Place {
            in_a_row: 10,
            batched: vec![batched.to_owned()],
            ..Place::default()
        };
        let of_worker = claim(&mut test.client(), 10, &mut place);
        assert_eq!(of_worker.len(), claimed, "{policy:?} {batched}");
        assert!(of_worker.contains(&ids[0].get()), "{policy:?} {batched}");
    }
}

#[test]
fn fast_jobs_keep_their_order_through_failures_and_deaths() {
    let (test, queue) = with_policy(CONTINUE);
    let refuse = "IF NEW.kind = 'refused' THEN RAISE EXCEPTION 'no more of them'; END IF";
    test.before("INSERT ON redrive.jobs", refuse);
    let (finished, tally) = (kept::<Finished>(), Tally::new());
    let handler = finished.noting_unless(move |job| {
        match (tally.count(job.id()), job.payload().number % 50) {
            (1, 20) => Err(Failure::retry("the first attempt fails")),
            (_, 30) => Err(Failure::reject("it never succeeds")),
            // The server rejects the follow-up, so the job runs again.
            (1, 40) => Ok(job.then_in_queue("next", NewJob::raw("refused", "{}")?)?),
            _ => Ok(()),
        }
    });
    let soon = Backoff::fixed(Duration::from_millis(1));
    let worker = worker(&queue).slots(2).backoff(soon).runs(handler);
    enqueue_rounds(&queue, &["a", "b", "c"], 300);
    drained(&queue);
    let runs = |number: i64| match number % 50 {
        30 => 0,
        40 => 2,
        _ => 1,
    };
    let expected = (1..=300).flat_map(|number| vec![number; runs(number)]);
    let expected: Vec<i64> = expected.collect();
    for group in ["a", "b", "c"] {
        assert_eq!(finished.of(group), expected, "group {group}");
    }
    assert_eq!(worker.stats().dead, 18);
    stop(worker);
    assert_eq!(test.count("group_slots"), 0);
}
