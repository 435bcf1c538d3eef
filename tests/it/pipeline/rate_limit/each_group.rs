//! Limits of each group: windows, other groups, order, retries, and jobs that lose their worker.

use super::*;
use crate::groups::{CONTINUE, Finished, enqueue_rounds, with_policy};

/// Starts a worker that notes its starts.
fn noting(queue: &Queue) -> (Worker, &'static Finished) {
    let starts = kept::<Finished>();
    (noting_in(queue, starts), starts)
}

fn noting_in(queue: &Queue, starts: &'static Finished) -> Worker {
    worker(queue).slots(4).runs(starts.noting())
}

#[test]
fn no_group_starts_more_than_its_limit_allows() {
    for (policy, rate, burst, jobs) in [
        (GroupPolicy::None, 300, 60, 100),
        (GroupPolicy::Fair, 1000, 2, 20),
        (GroupPolicy::Limit(2), 300, 60, 100),
        (CONTINUE, 300, 60, 80),
        (CONTINUE, 100, 1, 8),
    ] {
        let (test, queue) = with_policy(policy);
        let allowed = RateLimit::per(rate, SECOND).burst(burst);
        let before = Instant::now();
        limit(&queue, RateLimited::EachGroup, allowed);
        let groups = ["a", "b", "c"];
        enqueue_rounds(&queue, &groups, jobs);
        let starts = kept::<Finished>();
        let workers = [(); 3].map(|()| noting_in(&test.queue("orders"), starts));
        drained(&queue);
        assert_eq!(stop_all(workers), 3 * jobs.unsigned_abs());
        for group in groups {
            let (numbers, times) = starts.timed(group);
            assert_eq!(numbers.len() as u64, jobs.unsigned_abs(), "{policy:?}");
            Starts(Mutex::new(times)).obeys(before, f64::from(rate), burst as usize);
            assert!(policy != CONTINUE || numbers.is_sorted(), "{numbers:?}");
        }
    }
}

#[test]
fn a_group_without_a_token_delays_no_other_and_no_job_without_a_group() {
    let (test, queue) = TestDatabase::with_orders();
    limit(&queue, RateLimited::EachGroup, once());
    enqueue_rounds(&queue, &["a"], 300);
    let (worker, starts) = noting(&queue);
    wait_until("a job of the first group", SOON, || starts.count("a") == 1);
    enqueue_rounds(&queue, &["b", "c"], 3);
    queue.enqueue_many(&Order::up_to(50)).unwrap();
    wait_until("the other jobs", SOON, || {
        starts.count("") == 50 && starts.count("b") == 1 && starts.count("c") == 1
    });
    informed(&test, &[&worker]);
    assert_eq!(starts.count("a"), 1);
    assert_eq!((test.untouched(), test.count("jobs_waiting")), (303, 303));
    unlimit(&queue, RateLimited::EachGroup);
    assert_eq!(finish(&queue, worker).stats.done, 356);
    assert_eq!(test.count("group_buckets"), 0);
}

#[test]
fn a_job_needs_tokens_of_its_queue_its_kind_and_its_group() {
    for shared in [RateLimited::Queue, RateLimited::Kind("order")] {
        let (test, queue) = TestDatabase::with_orders();
        limit(&queue, RateLimited::EachGroup, once());
        let three = RateLimit::per(3, DAY).burst(3);
        limit(&queue, shared, three);
        enqueue_rounds(&queue, &["a", "b"], 5);
        let (worker, starts) = noting(&queue);
        wait_until("a job of each group", SOON, || {
            starts.count("a") == 1 && starts.count("b") == 1
        });
        informed(&test, &[&worker]);
        assert_eq!((starts.count("a"), starts.count("b")), (1, 1));
        // Two of the tokens are used: the third is for the first of two other groups.
        enqueue_rounds(&queue, &["c", "d"], 1);
        wait_until("a job of a third group", SOON, || {
            starts.count("c") + starts.count("d") == 1
        });
        informed(&test, &[&worker]);
        assert_eq!(test.count("jobs_waiting"), 9);
        unlimit(&queue, shared);
        unlimit(&queue, RateLimited::EachGroup);
        assert_eq!(finish(&queue, worker).stats.done, 12);
    }
}

#[test]
fn a_job_of_another_group_starts_while_those_before_it_wait_for_tokens() {
    let (test, queue) = TestDatabase::with_orders();
    limit(&queue, RateLimited::EachGroup, once());
    limit(&queue, RateLimited::Queue, RateLimit::per(100, SECOND));
    enqueue_rounds(&queue, &["a"], 1);
    test.sql("INSERT INTO redrive.group_buckets VALUES ('orders', 'a', now() + interval '1 day')");
    let (worker, starts) = noting(&queue);
    informed(&test, &[&worker]);
    enqueue_rounds(&queue, &["b"], 1);
    wait_until("a job of the other group", SOON, || starts.count("b") == 1);
    assert_eq!(starts.count("a"), 0);
    stop(worker);
}

#[test]
fn a_retry_of_an_ordered_group_needs_another_token_and_keeps_its_turn() {
    let (test, queue) = with_policy(CONTINUE);
    limit(&queue, RateLimited::EachGroup, once());
    enqueue_rounds(&queue, &["a"], 3);
    let starts = kept::<Finished>();
    let worker = worker(&queue).runs(move |job: &Job<Order>| {
        starts.note(job);
        match starts.count("a") {
            1 => Err(Failure::retry("once").after(Duration::ZERO)),
            _ => Ok(()),
        }
    });
    let put_off = "jobs_delayed d JOIN redrive.group_slots s ON s.job_id = d.id \
                   WHERE (d.meta).attempt = 1 AND (d.meta).refunds IS NULL AND d.run_at > clock_timestamp() + interval '5 s'";
    test.reaches(put_off, 1);
    test.all_due();
    test.reaches(put_off, 1);
    assert_eq!((starts.of("a"), test.count("jobs_waiting")), (vec![1], 2));
    unlimit(&queue, RateLimited::EachGroup);
    informed(&test, &[&worker]);
    test.all_due();
    drained(&queue);
    assert_eq!(starts.of("a"), [1, 1, 2, 3]);
    assert_eq!(stop(worker).stats.done, 3);
}

#[test]
fn the_job_of_a_lost_worker_needs_another_token() {
    for policy in [GroupPolicy::Fair, CONTINUE] {
        let (test, queue) = with_policy(policy);
        limit(&queue, RateLimited::EachGroup, once());
        enqueue_rounds(&queue, &["a"], 2);
        let gate = Gate::new();
        let lost = worker(&queue).runs(gate.passing::<Order>());
        gate.wait_for(1);
        assert_eq!(expire_leases(&mut test.client()).len(), 1);
        gate.open();
        drop(lost);
        let (worker, starts) = noting(&queue);
        let put_off = "jobs_delayed WHERE (meta).crashes = 1 AND (meta).attempt IS NULL";
        test.reaches(put_off, 1);
        informed(&test, &[&worker]);
        assert_eq!(starts.count("a"), 0, "{policy:?}");
        unlimit(&queue, RateLimited::EachGroup);
        informed(&test, &[&worker]);
        test.all_due();
        drained(&queue);
        assert_eq!(starts.count("a"), 2, "{policy:?}");
        stop(worker);
    }
}

#[test]
fn jobs_that_were_ready_before_the_limit_wait_for_tokens_of_their_group() {
    let (test, queue) = TestDatabase::with_orders();
    enqueue_rounds(&queue, &["a", "b"], 20);
    assert_eq!(test.count("jobs_waiting"), 0);
    limit(&queue, RateLimited::EachGroup, once());
    let (worker, starts) = noting(&queue);
    wait_until("a job of each group", SOON, || {
        starts.count("a") == 1 && starts.count("b") == 1
    });
    test.reaches("jobs_delayed WHERE (meta).attempt IS NULL", 38);
    test.all_due();
    test.reaches("jobs_waiting", 38);
    unlimit(&queue, RateLimited::EachGroup);
    drained(&queue);
    assert_eq!((starts.count("a"), starts.count("b")), (20, 20));
    assert_eq!(stop(worker).stats.done, 40);
}

#[test]
fn a_probe_of_a_group_takes_its_token() {
    let (test, queue) = TestDatabase::with_orders();
    limit(&queue, RateLimited::EachGroup, once());
    enqueue_rounds(&queue, &["a"], 1);
    test.sql(OPEN);
    let (worker, starts) = noting(&queue);
    drained(&queue);
    // The probe closed the breaker, and its group has no second token.
    enqueue_rounds(&queue, &["a"], 1);
    informed(&test, &[&worker]);
    assert_eq!((starts.count("a"), test.count("jobs_waiting")), (1, 1));
    stop(worker);
}
