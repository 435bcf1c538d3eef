//! Limits that are listed, recorded or rejected.

use std::time::Duration;

use redrive::{Operator, RateLimit, RateLimited};
use redrive_tests::{Sql, TestDatabase};

use super::{SECOND, limit, maria};

#[test]
fn limits_are_listed_with_their_tokens_and_recorded() {
    let (test, queue) = TestDatabase::with_orders();
    assert!(queue.rate_limits().unwrap().is_empty());
    limit(
        &queue,
        RateLimited::Queue,
        RateLimit::per(100, SECOND).burst(200),
    );
    limit(
        &queue,
        RateLimited::Kind("mail"),
        RateLimit::per(5, Duration::from_mins(1)).burst(1),
    );
    limit(
        &test.queue("other"),
        RateLimited::Queue,
        RateLimit::per(7, SECOND),
    );
    let listed = queue.rate_limits().unwrap();
    let brief: Vec<_> = listed
        .iter()
        .map(|it| {
            (
                it.kind.as_deref(),
                it.starts,
                it.period,
                it.burst,
                it.tokens,
            )
        })
        .collect();
    assert_eq!(
        brief,
        [
            (None, 100, SECOND, 200, 150),
            (Some("mail"), 5, Duration::from_mins(1), 1, 1)
        ]
    );
    assert_eq!(listed[0].person.as_deref(), Some("maria@ops-1"));
    assert_eq!(
        listed[0].reason.as_deref(),
        Some("the gateway allows no more")
    );
    assert!(
        queue
            .unlimit_rate(RateLimited::Kind("mail"), &maria())
            .unwrap()
    );
    assert!(
        !queue
            .unlimit_rate(RateLimited::Kind("mail"), &maria())
            .unwrap()
    );
    assert_eq!(queue.rate_limits().unwrap().len(), 1);
    let acts = "SELECT verb, about ->> 'kind' FROM redrive.audit ORDER BY id";
    let acts: Vec<(String, Option<String>)> = test
        .client()
        .query(acts, &[])
        .unwrap()
        .iter()
        .map(|row| (row.get(0), row.get(1)))
        .collect();
    let named = |act: &str, kind: Option<&str>| (act.to_owned(), kind.map(str::to_owned));
    assert_eq!(
        acts,
        [
            named("set_rate_limit", None),
            named("set_rate_limit", Some("mail")),
            named("set_rate_limit", None),
            named("remove_rate_limit", Some("mail")),
        ]
    );
}

#[test]
fn a_changed_limit_grants_no_additional_burst() {
    let (test, queue) = TestDatabase::with_orders();
    let day = Duration::from_hours(24);
    limit(
        &queue,
        RateLimited::Queue,
        RateLimit::per(10, day).burst(100),
    );
    test.client()
        .sql("UPDATE redrive.rate_buckets SET tokens = 0.5");
    limit(
        &queue,
        RateLimited::Queue,
        RateLimit::per(10, day).burst(500),
    );
    assert_eq!(queue.rate_limits().unwrap()[0].tokens, 0);
    limit(&queue, RateLimited::Queue, RateLimit::per(10, day).burst(2));
    assert_eq!(queue.rate_limits().unwrap()[0].tokens, 0);
    test.client()
        .sql("UPDATE redrive.rate_buckets SET tokens = 400");
    limit(&queue, RateLimited::Queue, RateLimit::per(10, day).burst(2));
    assert!(queue.rate_limits().unwrap()[0].tokens <= 2);
}

#[test]
fn invalid_limits_are_rejected_and_store_nothing() {
    let (test, queue) = TestDatabase::with_orders();
    for (jobs, limit, expected) in [
        (
            RateLimited::Queue,
            RateLimit::per(0, SECOND),
            "0 starts; it must allow 1 to 1000000",
        ),
        (
            RateLimited::Queue,
            RateLimit::per(1, Duration::ZERO),
            "from 1 ms to 31 days",
        ),
        (
            RateLimited::Queue,
            RateLimit::per(1, SECOND).burst(0),
            "a burst of 0",
        ),
        (
            RateLimited::Kind(""),
            RateLimit::per(1, SECOND),
            "invalid kind name",
        ),
        (
            RateLimited::Kind(" mail"),
            RateLimit::per(1, SECOND),
            "invalid kind name",
        ),
    ] {
        let error = queue
            .limit_rate(jobs, limit, &Operator::default())
            .unwrap_err();
        assert!(error.is_invalid(), "{error}");
        let text = format!(
            "{error}: {:?}",
            std::error::Error::source(&error).map(ToString::to_string)
        );
        assert!(text.contains(expected), "{text}");
    }
    let mut client = test.client();
    for (call, expected) in [
        ("redrive.set_rate_limit('orders', NULL)", "NULL starts"),
        (
            "redrive.set_rate_limit('orders', 1, '0')",
            "from 1 millisecond to 31 days",
        ),
        (
            "redrive.set_rate_limit('orders', 1, NULL)",
            "the period is NULL",
        ),
        (
            "redrive.set_rate_limit('orders', 1, '32 days')",
            "from 1 millisecond to 31 days",
        ),
        (
            "redrive.set_rate_limit('orders', 1, '1 s', 0)",
            "the burst is 0",
        ),
        ("redrive.set_rate_limit(NULL, 1)", "invalid queue name"),
        (
            "redrive.set_rate_limit('orders', 1, kind => 'mail', each_group => true)",
            "a rate limit of each group has no kind",
        ),
        (
            "redrive.set_rate_limit('orders', 1, each_group => NULL)",
            "each_group is NULL",
        ),
        ("redrive.remove_rate_limit(' ')", "invalid queue name"),
    ] {
        let error = client.batch_execute(&format!("SELECT {call}")).unwrap_err();
        let text = error
            .as_db_error()
            .expect("refused by the server")
            .message();
        assert!(text.contains(expected), "{call}: {text}");
    }
    let rows = "SELECT (SELECT count(*) FROM redrive.rate_limits) + (SELECT count(*) FROM redrive.rate_buckets) \
        + (SELECT count(*) FROM redrive.group_policies)";
    assert_eq!(redrive_tests::scalar(&mut client, rows), 0);
}
