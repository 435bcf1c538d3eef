//! Limits that are recorded or rejected.

use redrive_tests::prelude::*;

use super::{SECOND, limit};

#[test]
fn changes_of_limits_are_recorded() {
    let (test, queue) = TestDatabase::with_orders();
    limit(&queue, RateLimited::Queue, RateLimit::per(100, SECOND));
    let five = RateLimit::per(5, SECOND).burst(1);
    limit(&queue, RateLimited::Kind("mail"), five);
    for removed in [true, false] {
        let unlimited = queue.unlimit_rate(RateLimited::Kind("mail"), &maria());
        assert_eq!(unlimited.unwrap(), removed);
    }
    assert_eq!(queue.database().admin().rate_limits(None).unwrap().len(), 1);
    let acts = "SELECT concat_ws(' ', replace(verb, '_rate_limit', ' of'), about ->> 'kind') FROM redrive.audit ORDER BY id";
    let acts: Vec<String> = test.client().column(acts, &[]);
    assert_eq!(acts, ["set of", "set of mail", "remove of mail"]);
}

#[test]
fn a_changed_limit_grants_no_additional_burst() {
    let (test, queue) = TestDatabase::with_orders();
    let tokens = |burst| {
        let daily = RateLimit::per(10, DAY);
        limit(&queue, RateLimited::Queue, daily.burst(burst));
        queue.database().admin().rate_limits(None).unwrap()[0].tokens
    };
    tokens(100);
    test.sql("UPDATE redrive.rate_buckets SET tokens = 0.5");
    assert_eq!((tokens(500), tokens(2)), (0, 0));
    test.sql("UPDATE redrive.rate_buckets SET tokens = 400");
    assert!(tokens(2) <= 2);
}

#[test]
fn invalid_limits_are_rejected_and_store_nothing() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let none = RateLimit::per(0, SECOND);
    let error = queue.limit_rate(RateLimited::Queue, none, &maria());
    assert!(error.expect_err("no start").is_invalid());
    client.refuses_each(
        "SELECT redrive.@",
        "set_rate_limit('orders', NULL)         -- NULL starts
         set_rate_limit('orders', 1000001)      -- 1000001 starts
         set_rate_limit('orders', 1, '0')       -- from 1 millisecond to 31 days
         set_rate_limit('orders', 1, NULL)      -- the period is NULL
         set_rate_limit('orders', 1, '32 days') -- from 1 millisecond to 31 days
         set_rate_limit('orders', 1, '1 s', 0)  -- the burst is 0
         set_rate_limit('orders', 1, '1 s', 1000001) -- the burst is 1000001
         set_rate_limit(NULL, 1)                -- invalid queue name
         set_rate_limit('orders', 1, kind => 'mail', each_group => true) -- a rate limit of each group has no kind
         set_rate_limit('orders', 1, each_group => NULL) -- each_group is NULL
         remove_rate_limit(' ')                 -- invalid queue name",
    );
    let rows = "SELECT (SELECT count(*) FROM redrive.rate_limits) + (SELECT count(*) FROM redrive.rate_buckets) \
        + (SELECT count(*) FROM redrive.group_policies)";
    assert_eq!(client.ask::<i64>(rows, &[]), 0);
}
