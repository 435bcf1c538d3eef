//! Ordered groups: which job stops its group, and how the turn passes. `followers` has the order.

use super::*;

#[test]
fn a_head_of_an_unhandled_kind_stops_only_its_group() {
    let (test, queue) = with_policy(CONTINUE);
    let unknown = put(&queue, NewJob::raw("unknown", "{}").unwrap().group("a"));
    enqueue(&queue, "a", 1);
    enqueue(&queue, "b", 1);
    let finished = kept::<Finished>();
    let worker = finishing(&queue, finished);
    wait_until("the other group to finish", SOON, || {
        finished.of("b") == [1]
    });
    assert!(finished.of("a").is_empty());
    let jobs = queue.database().admin().jobs();
    jobs.cancel(unknown, &maria()).unwrap();
    all_end(&test, &queue, worker, finished, &[1]);
}

#[test]
fn a_turn_passes_at_once_to_a_kind_with_a_limit_of_its_own() {
    let (_test, queue) = with_policy(CONTINUE);
    for _ in 0..30 {
        put(&queue, new_order(1).group("a"));
        put(&queue, NewJob::new(&Finish {}).unwrap().group("a"));
    }
    let worker = worker(&queue).slots(2).handle(|_: &Job<Order>| Ok(()));
    let worker = worker.options(HandlerOptions::new().concurrency(1));
    let worker = worker.poll_interval(Duration::from_mins(1));
    let worker = worker.runs(|_: &Job<Finish>| Ok(()));
    assert!(worker.drain(SOON).unwrap(), "no turn waits for a poll");
    stop(worker);
}
