//! The buckets: their numbers, and sessions that hold or lose them.

use redrive_tests::prelude::*;

use super::{OPEN, Starts, limit, once, recording};

/// A limit that no test meets.
fn many() -> RateLimit {
    RateLimit::per(100_000, Duration::from_secs(1))
}

/// In every window, a bucket lets at most `burst + rate * t` jobs start, if they start within the time
/// that it allows.
#[test]
fn the_numbers_of_a_bucket_keep_the_promise_for_every_limit() {
    let (_test, mut client) = TestDatabase::with_client();
    let insert = "INSERT INTO redrive.rate_limits (queue, kind, starts, period, burst) \
                  SELECT 'q', concat_ws(' ', s, p, b), s, p, b \
                  FROM unnest(ARRAY[1, 2, 3, 10, 999, 1000000]) s, \
                       unnest('{1 millisecond, 1 second, 1 minute, 31 days}'::interval[]) p, \
                       unnest(ARRAY[1, 2, 3, 100, 1000000]) b";
    client.sql(insert);
    let numbers = "SELECT kind, rate, burst::float8, redrive.token_hold(l), redrive.token_refill(l), \
                          redrive.token_capacity(l) \
                   FROM redrive.rate_limits l";
    let rows: Vec<(String, f64, f64, f64, f64, f64)> = client.rows(numbers, &[]);
    assert_eq!(rows.len(), 120);
    for (name, rate, burst, hold, refill, capacity) in rows {
        let nearly = 1.0 + 1e-9;
        assert!((0.02..=1.0).contains(&hold), "{name}: {hold}");
        assert!(refill > 0.0 && refill <= rate * nearly, "{name}: {refill}");
        // A job needs a whole token.
        assert!(capacity >= 1.0 / nearly, "{name}: {capacity}");
        if burst > 1.0 {
            assert!(capacity + refill * hold <= burst * nearly, "{name}");
        } else {
            assert!(1.0 / refill >= (1.0 / rate + hold) / nearly, "{name}");
        }
        if burst > 1.0 + rate * 0.02 || burst < 2.0 && rate <= 2.5 {
            assert!(refill >= 0.95 * rate, "{name}: {refill} of {rate}");
        }
    }
}

#[test]
fn a_session_that_holds_a_bucket_delays_only_its_jobs() {
    let (test, queue) = TestDatabase::with_orders();
    limit(&queue, RateLimited::Kind("finish"), many());
    let (orders, others) = (kept::<Starts>(), kept::<Starts>());
    let mut holder = test.begins("SELECT FROM redrive.rate_buckets FOR UPDATE");
    queue.enqueue_many(&[Finish {}; 20]).unwrap();
    queue.enqueue_many(&Order::up_to(20)).unwrap();
    let worker = recording(&queue, orders, others);
    wait_until("the orders to run", SOON, || orders.count() == 20);
    informed(&test, &[&worker]);
    assert_eq!(others.count(), 0);
    holder.sql("ROLLBACK");
    assert_eq!(finish(&queue, worker).stats.done, 40);
}

#[test]
fn a_bucket_that_was_lost_comes_back_empty() {
    let (test, queue) = TestDatabase::with_orders();
    limit(&queue, RateLimited::Queue, once());
    test.sql("DELETE FROM redrive.rate_buckets");
    queue.enqueue_many(&Order::up_to(5)).unwrap();
    let (orders, others) = (kept::<Starts>(), kept::<Starts>());
    let worker = recording(&queue, orders, others);
    test.reaches("rate_buckets", 1);
    informed(&test, &[&worker]);
    assert_eq!(orders.count(), 0);
    limit(&queue, RateLimited::Queue, many());
    assert_eq!(finish(&queue, worker).stats.done, 5);
}

#[test]
fn a_probe_costs_a_token() {
    let (test, queue) = TestDatabase::with_orders();
    limit(&queue, RateLimited::Queue, once());
    let (orders, others) = (kept::<Starts>(), kept::<Starts>());
    queue.enqueue_many(&Order::up_to(5)).unwrap();
    let worker = recording(&queue, orders, others);
    wait_until("an order to use the token", SOON, || orders.count() == 1);
    test.sql(OPEN);
    informed(&test, &[&worker]);
    assert_eq!(
        (orders.count(), test.count("breakers WHERE probes > 0")),
        (1, 0)
    );
    test.sql("UPDATE redrive.rate_buckets SET tokens = 1");
    test.reaches("breakers WHERE state = 'closed'", 1);
    informed(&test, &[&worker]);
    assert_eq!(orders.count(), 2);
    stop(worker);
}

#[test]
fn a_kind_without_tokens_keeps_no_breaker_open_for_others() {
    for breaker in ["queue:orders", "payments"] {
        let (test, queue) = TestDatabase::with_orders();
        limit(&queue, RateLimited::Kind("order"), once());
        let (orders, others) = (kept::<Starts>(), kept::<Starts>());
        queue.enqueue_many(&Order::up_to(2)).unwrap();
        let worker = recording(&queue, orders, others);
        wait_until("an order to use the token", SOON, || orders.count() == 1);
        let open = OPEN.replace("queue:orders", breaker);
        test.sql(&format!(
            "{open}; UPDATE redrive.breakers SET kinds = '{{order, finish}}'"
        ));
        informed(&test, &[&worker]);
        queue.enqueue(&Finish {}).unwrap();
        test.reaches("breakers WHERE state = 'closed'", 1);
        assert_eq!((orders.count(), others.count()), (1, 1));
        stop(worker);
    }
}
