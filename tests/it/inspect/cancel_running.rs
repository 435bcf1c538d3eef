//! The statements that ask the handler of a running job to stop.

use redrive_tests::{TestDatabase, statement};

#[test]
fn only_a_job_that_is_not_done_is_asked_to_stop_under_its_lease() {
    let (_test, mut client) = TestDatabase::with_client();
    client
        .batch_execute(
            "INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at, done) \
             SELECT gen_random_uuid(), gen_random_uuid(), 'orders', l.ids, '{order,order}', '{\"{}\",\"{}\"}', \
                    ARRAY[now(), now()], l.done \
             FROM (VALUES ('{1,2}'::bigint[], '{2}'::bigint[]), ('{3,4}', '{}')) AS l (ids, done)",
        )
        .unwrap();
    for (job, asked) in [(1_i64, 1), (2, 0), (9, 0)] {
        let rows = client
            .query(statement("cancel_running"), &[&job, &"wrong", &"maria"])
            .unwrap();
        assert_eq!(rows.len(), asked, "cancel_running of job {job}");
    }
    for (job, asked) in [(4_i64, 1), (2, 0), (9, 0)] {
        let rows = client.query(statement("cancel"), &[&job]).unwrap();
        assert_eq!(rows.len(), asked, "cancel of job {job}");
    }
    let cancelled = client
        .query("SELECT cancelled FROM redrive.leases ORDER BY ids", &[])
        .unwrap();
    let cancelled: Vec<Vec<i64>> = cancelled.iter().map(|row| row.get(0)).collect();
    assert_eq!(cancelled, [vec![1], vec![4]]);
}
