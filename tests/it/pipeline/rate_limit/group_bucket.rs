//! The buckets of groups: races, sessions that hold one, many groups, and rows that vanish.

use super::*;
use crate::groups::order;

/// Takes up to `wanted` tokens of one group. Returns how many there were.
fn take(client: &mut Client, group: &str, wanted: usize) -> i64 {
    let groups = vec![group; wanted];
    let ids: Vec<i64> = (1..).take(wanted).collect();
    let taken = "SELECT count(*) FILTER (WHERE t.is_granted) FROM redrive.take_group_tokens('orders', $1, $2) t";
    client.ask(taken, &[&groups, &ids])
}

#[test]
fn a_group_has_as_many_tokens_as_its_bucket_for_every_limit() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let month = 31 * DAY;
    for (starts, period, burst, capacity) in [
        (1, month, 1, 1),
        (1, month, 2, 1),
        (1, month, 100_000, 99_999),
        (1_000_000, month, 3, 2),
        (2, DAY, 500, 499),
    ] {
        let unlimited = queue.unlimit_rate(RateLimited::EachGroup, &maria());
        unlimited.unwrap();
        let allowed = RateLimit::per(starts, period).burst(burst);
        limit(&queue, RateLimited::EachGroup, allowed);
        let (mut taken, mut all) = (0, capacity);
        while all > 0 {
            let wanted = usize::try_from(all.min(1000)).unwrap();
            let granted = take(&mut client, "a", wanted);
            assert!(granted > 0, "{starts} {burst}: {taken} of {capacity}");
            taken += granted;
            all -= granted;
        }
        // A bucket refills a little between two statements.
        assert!(take(&mut client, "a", 5) <= 1, "{starts} {burst}");
        assert!(taken <= i64::from(burst));
    }
}

#[test]
fn claims_at_the_same_time_take_no_token_twice() {
    let (test, queue) = TestDatabase::with_orders();
    let allowed = RateLimit::per(1, DAY).burst(100);
    limit(&queue, RateLimited::EachGroup, allowed);
    for round in 0..5 {
        let group = format!("g{round}");
        let take_all =
            |mut client: Client| (0..10).map(|_| take(&mut client, &group, 3)).sum::<i64>();
        let taken: i64 = at_once(8, |_| test.client(), take_all).iter().sum();
        // A busy machine gives the hundredth token time to come.
        assert!((1..=100).contains(&taken), "{taken}");
        // The buckets skip each other, so a claim may have left tokens.
        let rest: i64 = (0..99).map(|_| take(&mut test.client(), &group, 1)).sum();
        // The hundredth comes after a second.
        assert!((99..=100).contains(&(taken + rest)), "{taken} and {rest}");
    }
}

#[test]
fn a_locked_bucket_is_skipped_with_its_group() {
    let (test, queue) = TestDatabase::with_orders();
    limit(&queue, RateLimited::EachGroup, RateLimit::per(10, SECOND));
    assert_eq!(take(&mut test.client(), "a", 1), 1);
    let mut holder = test.begins("SELECT FROM redrive.group_buckets FOR UPDATE");
    queue.enqueue_jobs(&[order("a", 1), order("b", 1)]).unwrap();
    let starts = kept::<Starts>();
    let worker = worker(&queue).runs(starts.recorder::<Order>());
    wait_until("the job of the other group", SOON, || starts.count() == 1);
    informed(&test, &[&worker]);
    assert_eq!(starts.count(), 1);
    holder.sql("ROLLBACK");
    drained(&queue);
    assert_eq!(stop(worker).stats.done, 2);
}

#[test]
fn a_clock_that_was_set_back_adds_no_token() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    limit(&queue, RateLimited::EachGroup, RateLimit::per(10, SECOND));
    client
        .sql("INSERT INTO redrive.group_buckets VALUES ('orders', 'a', now() + interval '1 hour')");
    assert_eq!(take(&mut client, "a", 5), 0);
    assert!(queue.database().admin().rate_limits(None).unwrap()[0].tokens < 0);
}

#[test]
fn full_buckets_vanish_and_others_stay() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    limit(&queue, RateLimited::EachGroup, RateLimit::per(1000, SECOND));
    client
        .sql("INSERT INTO redrive.group_buckets (queue, group_key, full_at) \
             SELECT 'orders', 'g' || n, CASE n WHEN 7 THEN now() + interval '1 hour' ELSE now() END \
             FROM generate_series(1, 50000) n");
    let jobs: Vec<NewJob> = (0..500).map(|n| order(&format!("n{n}"), 1)).collect();
    queue.enqueue_jobs(&jobs).unwrap();
    let starts = kept::<Starts>();
    let worker = lively(&queue).runs(starts.recorder::<Order>());
    drained(&queue);
    client.reaches("group_buckets", 1);
    assert_eq!(client.count("group_buckets WHERE group_key = 'g7'"), 1);
    assert_eq!(starts.count(), 500);
    stop(worker);
}

/// Stores a job in each of a hundred thousand groups, none of which has a token.
fn without_tokens(client: &mut Client) {
    client
        .sql("INSERT INTO redrive.jobs (segment, queue, kind, payload, meta.group_key) \
             SELECT 8, 'orders', 'order', '{\"number\": 1}', 'g' || lpad(g::text, 7, '0') \
             FROM generate_series(1, 100000) g; \
             INSERT INTO redrive.group_buckets (queue, group_key, full_at) \
             SELECT 'orders', (j.meta).group_key, now() + interval '1 day' FROM redrive.jobs_waiting j; \
             ANALYZE redrive.jobs, redrive.jobs_waiting, redrive.group_buckets");
}

#[test]
fn a_worker_finds_the_one_group_with_a_token_among_a_hundred_thousand() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    limit(&queue, RateLimited::EachGroup, once());
    without_tokens(&mut client);
    let starts = kept::<Starts>();
    let worker = worker(&queue).runs(starts.recorder::<Order>());
    for (n, group) in ["g0070000", "g0000001", "g0100000"].iter().enumerate() {
        let refill =
            "UPDATE redrive.group_buckets SET full_at = clock_timestamp() WHERE group_key = $1";
        client.change(refill, &[group]);
        wait_until("the job to run", SOON, || starts.count() == n + 1);
    }
    stop(worker);
}

#[test]
fn a_changed_limit_of_each_group_grants_no_additional_burst() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let of = |starts: u32, burst: u32| RateLimit::per(starts, DAY).burst(burst);
    limit(&queue, RateLimited::EachGroup, of(10, 100));
    assert_eq!(take(&mut client, "a", 1000), 99);
    for (starts, burst) in [(10, 500), (1, 500), (100, 300)] {
        limit(&queue, RateLimited::EachGroup, of(starts, burst));
        let taken = take(&mut client, "a", 1000);
        assert!(taken <= 1, "{starts} per day, burst {burst}");
    }
    // A smaller burst bounds the tokens that are left.
    assert_eq!(take(&mut client, "b", 10), 10);
    limit(&queue, RateLimited::EachGroup, of(100, 20));
    assert!((19..=20).contains(&take(&mut client, "b", 1000)));
}
