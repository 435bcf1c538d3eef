//! Readings of the metrics behind dead rows of ready jobs.

use redrive_tests::TestDatabase;

use super::{FRESH, PINNED, held, touched};

#[test]
fn a_reading_passes_the_dead_rows_of_a_queue_with_marks_once() {
    let test = TestDatabase::migrated();
    let (mut client, mut holder) = (test.client(), test.client());
    client.batch_execute(FRESH).unwrap();
    client.batch_execute(PINNED).unwrap();
    let fresh = touched(&mut client, "metrics_queues", "");
    let horizon = held(&mut holder);
    client
        .batch_execute(
            "INSERT INTO redrive.jobs (segment, queue, kind, payload) \
             SELECT 0, 'dead', 'order', '{}' FROM generate_series(1, 100000); \
             DELETE FROM redrive.jobs WHERE queue = 'dead'; \
             INSERT INTO redrive.jobs (segment, queue, kind, payload) VALUES (0, 'dead', 'straggler', '{}'); \
             INSERT INTO redrive.claim_marks (queue, claims, rank, id, left_out) VALUES ('dead', 'all', 0, 1, '{}')",
        )
        .unwrap();
    client.batch_execute("VACUUM redrive.jobs").unwrap();
    let once = touched(&mut client, "unserved", "'dead', '{order}'");
    assert!(once > 1000, "{once} pages");
    let reading = touched(&mut client, "metrics_queues", "");
    assert!(
        2 * (reading - fresh) < 3 * once,
        "{fresh} pages, then {reading}; once is {once}"
    );
    horizon.commit().unwrap();
}

#[test]
fn a_queue_with_marks_and_no_job_is_read_as_empty() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client
        .batch_execute(
            "INSERT INTO redrive.jobs (segment, queue, kind, payload) \
             VALUES (0, 'a', 'order', '{}'), (0, 'c', 'order', '{}'), (0, 'd', 'order', '{}'); \
             INSERT INTO redrive.claim_marks (queue, claims, rank, id, left_out) VALUES ('b', 'all', 0, 1, '{}')",
        )
        .unwrap();
    let ready = "SELECT array_agg(m.labels[1] || ' ' || m.value ORDER BY m.labels[1]) FROM redrive.metrics_queues() m \
                 WHERE m.metric = 'redrive_queue_jobs' AND m.labels[2] = 'ready'";
    let ready: Vec<String> = client.query_one(ready, &[]).unwrap().get(0);
    assert_eq!(ready, ["a 1", "b 0", "c 1", "d 1"]);
}
