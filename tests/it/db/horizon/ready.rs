//! Readings of the metrics behind dead rows of ready jobs.

use redrive_tests::prelude::*;

#[test]
fn a_queue_with_marks_and_no_job_is_read_as_empty() {
    let (_test, mut client) = TestDatabase::with_client();
    client.sql("INSERT INTO redrive.jobs (segment, queue, kind, payload) \
             VALUES (0, 'a', 'order', '{}'), (0, 'c', 'order', '{}'), (0, 'd', 'order', '{}'); \
             INSERT INTO redrive.claim_marks (queue, claims, rank, id, left_out) VALUES ('b', 'all', 0, 1, '{}')");
    let ready = "SELECT array_agg(m.labels[1] || ' ' || m.value ORDER BY m.labels[1]) FROM redrive.metrics_queues() m \
                 WHERE m.metric = 'redrive_queue_jobs' AND m.labels[2] = 'ready'";
    let ready: Vec<String> = client.ask(ready, &[]);
    assert_eq!(ready, ["a 1", "b 0", "c 1", "d 1"]);
}
