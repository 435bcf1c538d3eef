//! The statement that claims jobs of groups: races, and what it leaves alone.

use super::*;

/// Where a claim starts, and where it ended.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) after: Option<String>,
    /// How many jobs of a group to take before those of the next one.
    pub(super) in_a_row: i32,
    /// The kinds whose jobs run in batches.
    pub(super) batched: Vec<String>,
    /// The payload bytes after which it takes no further job.
    pub(super) bytes: i64,
}

impl Default for Place {
    fn default() -> Place {
        Place {
            after: None,
            in_a_row: 1,
            batched: Vec::new(),
            bytes: 8_388_608,
        }
    }
}

/// Claims up to `limit` jobs of groups with the statement of a worker. Returns their ids.
pub(super) fn claim(client: &mut impl GenericClient, limit: i64, place: &mut Place) -> Vec<i64> {
    let (all, none) = (None::<Vec<String>>, Vec::<String>::new());
    let (lease, worker) = (Uuid::new_v4(), Uuid::nil());
    let (after, bytes) = (&place.after, &place.bytes);
    let (in_a_row, most) = (&place.in_a_row, i32::MAX);
    let values: [&(dyn ToSql + Sync); 13] = [
        &"orders",
        &all,
        &none,
        &limit,
        bytes,
        &lease,
        &worker,
        &all,
        after,
        &500,
        in_a_row,
        &most,
        &place.batched,
    ];
    let rows = client.query(statement("claim_groups"), &values);
    let rows = rows.expect("claim jobs of groups");
    place.after = rows[0].get("walked_to");
    let leases = rows.iter().map(|row| row.get::<_, Option<Vec<i64>>>("ids"));
    leases.flatten().flatten().collect()
}

/// Stores `count` jobs in each of `groups` groups at once, as enqueues with a policy do.
pub(super) fn fill(client: &mut Client, prefix: &str, groups: i64, count: i64) {
    let store = "INSERT INTO redrive.jobs (segment, queue, kind, payload, meta.group_key) \
             SELECT 8, 'orders', 'order', '{\"number\": 1}', $1 || lpad(g::text, 7, '0') \
             FROM generate_series(1, $3::bigint) n, generate_series(1, $2::bigint) g";
    client.change(store, &[&prefix, &groups, &count]);
}

#[test]
fn the_primary_key_decides_between_two_claims_of_a_group() {
    for commits in [true, false] {
        let (test, queue) = with_policy(CONTINUE);
        // A job with a lower id becomes visible only after the first claim.
        let mut late = test.begins("");
        let lower = queue.enqueue_job_in(&mut late, order("a", 1)).unwrap().id();
        let higher = enqueue(&queue, "a", 2);
        let mut first = test.begins("");
        assert_eq!(claim(&mut first, 10, &mut Place::default()), [higher.get()]);
        late.sql("COMMIT");
        let other = enqueue(&queue, "b", 1);
        let mut client = test.client();
        let second = || claim(&mut client, 10, &mut Place::default());
        let second = held_up(&test, second, || match commits {
            true => first.sql("COMMIT"),
            false => first.sql("ROLLBACK"),
        });
        let expected = [lower.get(), other.get()];
        assert_eq!(second, expected[usize::from(commits)..]);
        assert_eq!(client.count("jobs_waiting"), 1);
        assert_eq!(client.count("group_slots"), 2);
    }
}

#[test]
fn a_locked_head_is_not_replaced_by_the_second_job() {
    let (test, queue) = with_policy(CONTINUE);
    let head = enqueue(&queue, "a", 1);
    enqueue(&queue, "a", 2);
    let other = enqueue(&queue, "b", 1);
    let lock = format!("SELECT FROM redrive.jobs WHERE id = {head} FOR UPDATE");
    let mut locker = test.begins(&lock);
    let mut client = test.client();
    let claimed = claim(&mut client, 10, &mut Place::default());
    assert_eq!(claimed, [other.get()], "another group continues");
    locker.sql("ROLLBACK");
    assert_eq!(claim(&mut client, 10, &mut Place::default()), [head.get()]);
}

#[test]
fn a_claim_stops_after_its_bytes_and_takes_no_slot_for_the_rest() {
    let (test, queue) = with_policy(CONTINUE);
    enqueue_rounds(&queue, &["a", "b", "c"], 1);
    let mut client = test.client();
    let mut place = Place {
        bytes: 1,
        ..Place::default()
    };
    assert_eq!(claim(&mut client, 20, &mut place).len(), 1);
    assert_eq!(client.count("jobs_waiting"), 2);
    assert_eq!(client.count("group_slots"), 1);
}

#[test]
fn a_higher_priority_does_not_change_the_order_within_a_group() {
    for policy in [CONTINUE, GroupPolicy::Limit(1), GroupPolicy::Fair] {
        let (test, queue) = with_policy(policy);
        let low = enqueue(&queue, "a", 1);
        let high = put(&queue, order("a", 2).priority(9));
        let first = || claim(&mut test.client(), 1, &mut Place::default());
        assert_eq!(first(), [low.get()], "{policy:?}");
        test.sql("DELETE FROM redrive.leases; DELETE FROM redrive.group_slots");
        assert_eq!(first(), [high.get()], "{policy:?}");
    }
}
