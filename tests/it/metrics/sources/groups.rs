//! Held groups, and rate limits of each group.

use redrive_tests::prelude::*;

use super::{about, reading, reading_of};

#[test]
fn held_groups_are_published_with_their_age_and_the_jobs_behind_them() {
    let reading = reading_of(
        "SELECT redrive.set_group_policy('orders', 'ordered', on_death => 'hold'); \
             SELECT redrive.set_group_policy('mails', 'ordered', on_death => 'hold'); \
             SELECT redrive.set_group_policy('fair', 'fair'); \
             INSERT INTO redrive.group_slots (queue, group_key, slot, job_id, held_at) VALUES \
                 ('orders', 'a', 1, -1, clock_timestamp() - interval '1 hour'), \
                 ('orders', 'b', 1, -2, clock_timestamp() - interval '2 hours'), \
                 ('orders', 'c', 1, -3, NULL); \
             SELECT redrive.enqueue('orders', 'order', '{}', group_key => g) \
             FROM unnest('{a,b,b,c,d}'::text[]) g",
    );
    // Behind `c`, a job waits for a live one. `d` has its turn as soon as a worker asks.
    for (queue, groups, jobs, waiting, seconds) in [
        ("orders", 2.0, 3.0, 4.0, 7200.0),
        ("mails", 0.0, 0.0, 0.0, 0.0),
    ] {
        reads(&reading, "redrive_held_groups", &[queue], groups);
        reads(&reading, "redrive_held_group_jobs", &[queue], jobs);
        reads(&reading, "redrive_queue_blocked_jobs", &[queue], waiting);
        let age = format!("held_group_oldest_age_seconds{{{queue}}}");
        about(&reading, &age, seconds);
    }
    assert_eq!(series(&reading, "held_groups{fair}"), None);
}

#[test]
fn the_use_of_a_limit_of_each_group_is_that_of_the_group_with_the_fewest_tokens() {
    let (_test, mut client) = TestDatabase::with_client();
    client.sql("SELECT redrive.set_rate_limit('orders', 4, '1 hour', each_group => true)");
    let publishes = |client: &mut Client, is_used: fn(f64) -> bool, is_empty: f64| {
        let reading = reading(client);
        let used = series(&reading, "rate_limit_use_ratio{orders,__each_group__}");
        assert!(used.is_some_and(is_used), "{used:?}");
        let empty = "rate_limit_empty{orders,__each_group__}";
        says(&reading, empty, is_empty);
    };
    publishes(&mut client, |used| used <= 0.0, 0.0);
    let fill = |client: &mut Client, group: &str, missing: &str| {
        let bucket = "INSERT INTO redrive.group_buckets \
                      SELECT 'orders', $1::text, clock_timestamp() + $2::text::interval";
        client.change(bucket, &[&group, &missing]);
    };
    fill(&mut client, "a", "5 minutes");
    publishes(&mut client, |used| 0.0 < used && used < 1.0, 0.0);
    fill(&mut client, "b", "2 hours");
    publishes(&mut client, |used| used >= 1.0, 1.0);
}

#[test]
fn jobs_of_a_group_wait_for_a_turn_while_none_is_left() {
    // Per queue: one group has taken two turns, the other one.
    let reading = reading_of(
        "SELECT redrive.set_group_policy('two', 'limit', 2); \
             SELECT redrive.set_group_policy('three', 'limit', 3); \
             SELECT redrive.set_group_policy('fair', 'fair'); \
             INSERT INTO redrive.group_slots (queue, group_key, slot, job_id) \
             SELECT q.name, s.*, -row_number() OVER () \
             FROM unnest('{two,three,fair}'::text[]) AS q (name), (VALUES ('a', 1), ('a', 2), ('b', 1)) s; \
             SELECT redrive.enqueue(q, 'order', '{}', group_key => g) \
             FROM unnest('{two,three,fair}'::text[]) q, unnest('{a,a,a,b}'::text[]) g",
    );
    for (queue, waiting) in [("two", 3.0), ("three", 0.0), ("fair", 0.0)] {
        reads(&reading, "redrive_queue_jobs", &[queue, "ready"], 4.0);
        reads(&reading, "redrive_queue_blocked_jobs", &[queue], waiting);
    }
}
