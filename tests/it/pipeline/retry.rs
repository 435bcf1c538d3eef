//! Retry: failed jobs run again after their delay.

use redrive_tests::prelude::*;

#[test]
fn a_retry_waits_for_the_backoff_of_its_kind_and_a_snooze_for_its_delay() {
    let (_test, queue) = TestDatabase::with_orders();
    let own = Backoff::custom(|attempt| Duration::from_secs(500) * attempt);
    let worker = worker(&queue)
        .backoff(Backoff::fixed(Duration::from_secs(100)))
        .handle(|job: &Job<Order>| match job.payload().number {
            1 => Err(Failure::retry("no")),
            3 => Err(Failure::snooze(Duration::from_hours(2))),
            _ => Err(Failure::retry("busy").after(Duration::from_mins(30))),
        })
        .handle(|_: &Job<Finish>| Err(Failure::retry("no")))
        .options(HandlerOptions::new().backoff(own))
        .started();
    let default = queue.enqueue(&Order { number: 1 }).unwrap();
    let own = queue.enqueue(&Finish {}).unwrap();
    let of_the_failure = queue.enqueue(&Order { number: 2 }).unwrap();
    let snoozed = queue.enqueue(&Order { number: 3 }).unwrap();
    retried(&worker, 3);
    counted(&worker, "one snooze", |counts| counts.snoozed == 1);
    stop(worker);
    for (id, seconds, attempts) in [
        (default, 100, 1),
        (own, 500, 1),
        (of_the_failure, 1800, 1),
        (snoozed, 7200, 0),
    ] {
        let job = queue.live(id);
        assert_eq!((job.state, job.attempts), (JobState::Delayed, attempts));
        assert_eq!(job.history.len(), attempts as usize);
        let wait = job.since.duration_since(job.enqueued_at).unwrap().as_secs();
        let is_right = (seconds..seconds + 60).contains(&wait);
        assert!(is_right, "{wait} s, not {seconds}");
    }
}
