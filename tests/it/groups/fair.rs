//! Fair groups: no limit, but each group has its turn.

use super::claim::{Place, claim, fill};
use super::*;

/// The claimed jobs of each group.
fn turns(client: &mut Client) -> Vec<i64> {
    let claimed = "SELECT count(*) FROM redrive.leases l, unnest(l.metas) m GROUP BY m.group_key";
    client.column(claimed, &[])
}

#[test]
fn the_job_of_another_tenant_does_not_wait_behind_a_hundred_thousand() {
    let (test, queue) = with_policy(GroupPolicy::Fair);
    let mut client = test.client();
    fill(&mut client, "big", 1, 100_000);
    let mut place = Place::default();
    assert_eq!(claim(&mut client, 10, &mut place).len(), 10);
    let small = enqueue(&queue, "small", 1);
    // Half of the claim is for the other group.
    assert!(claim(&mut client, 10, &mut place).contains(&small.get()));
    let smaller = enqueue(&queue, "small", 2);
    let found = (1..=2).any(|_| claim(&mut client, 1, &mut place) == [smaller.get()]);
    assert!(found, "not found in 2 claims");
}

#[test]
fn a_group_whose_jobs_keep_arriving_does_not_keep_the_others_waiting() {
    let (test, queue) = with_policy(GroupPolicy::Fair);
    let mut client = test.client();
    fill(&mut client, "m", 300, 3);
    let mut place = Place::default();
    let mut claimed = Vec::new();
    for number in 0..310 {
        enqueue(&queue, "noisy", number);
        claimed.extend(claim(&mut client, 1, &mut place));
    }
    let groups = "SELECT count(DISTINCT group_key) FROM redrive.leases l, unnest(l.metas)";
    assert_eq!(scalar(&mut client, groups), 301, "each group had its turn");
    assert_eq!(claimed.len(), 310);
}

#[test]
fn the_group_that_the_end_of_a_claim_cuts_is_the_first_of_the_next_one() {
    let (test, _queue) = with_policy(GroupPolicy::Fair);
    let mut client = test.client();
    fill(&mut client, "g", 4, 40);
    let mut place = Place::default();
    for _ in 1..=4 {
        // Four jobs of three groups, and one of another.
        assert_eq!(claim(&mut client, 13, &mut place).len(), 13);
    }
    assert_eq!(turns(&mut client), [13; 4]);
}

#[test]
fn every_group_has_as_many_turns_as_the_last_one() {
    for limit in [1, 4] {
        let (test, _queue) = with_policy(GroupPolicy::Fair);
        let mut client = test.client();
        fill(&mut client, "g", 6, 40);
        let mut place = Place::default();
        let mut claimed = 0;
        while claimed < 60 {
            let jobs = claim(&mut client, limit, &mut place).len();
            // The round goes on with the first group.
            assert_eq!(jobs, usize::try_from(limit).unwrap());
            claimed += jobs;
        }
        assert_eq!(turns(&mut client), [10; 6], "up to {limit} jobs at a time");
    }
}

#[test]
fn groups_of_large_jobs_take_turns() {
    let (test, _queue) = with_policy(GroupPolicy::Fair);
    let mut client = test.client();
    fill(&mut client, "g", 3, 20);
    let mut place = Place {
        bytes: 1,
        ..Place::default()
    };
    for _ in 0..6 {
        assert_eq!(claim(&mut client, 10, &mut place).len(), 1);
    }
    assert_eq!(turns(&mut client), [2; 3]);
}
