//! Groups in queues and kinds with a rate limit, and jobs of groups that are replaced.

use super::*;

#[test]
fn jobs_of_groups_need_tokens_and_keep_their_order() {
    for limited in [RateLimited::Queue, RateLimited::Kind("order")] {
        let (test, queue) = with_policy(CONTINUE);
        let once = RateLimit::per(1, Duration::from_hours(24)).burst(1);
        queue.limit_rate(limited, once, &maria()).unwrap();
        enqueue_rounds(&queue, &["a", "b", "c"], 20);
        let finished = Finished::default();
        let worker = worker(&queue).slots(4).runs(finished.noting());
        wait_until("the one token to be used", SOON, || {
            finished.all().len() == 1
        });
        assert_eq!(waiting(&mut test.client()), 59);
        let more = RateLimit::per(10_000, Duration::from_secs(1));
        queue.limit_rate(limited, more, &maria()).unwrap();
        finish(&queue, worker);
        each_ran(&finished, &["a", "b", "c"], 1..=20);
        no_slot_left(&test);
    }
}

#[test]
fn a_replaced_job_keeps_its_place_in_its_group() {
    let (test, queue) = with_policy(CONTINUE);
    let keyed = |number: i64| order("a", number).unique("k").replace(Replace::Both);
    let first = queue.enqueue_job(keyed(1)).unwrap();
    enqueue(&queue, "a", 2);
    let again = queue.enqueue_job(keyed(3)).unwrap();
    assert_eq!(again, Enqueued::Replaced(first.id()));
    assert_eq!(waiting(&mut test.client()), 2);
    run_all(&test, &queue, &[3, 2]);
}
