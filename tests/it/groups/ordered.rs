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
