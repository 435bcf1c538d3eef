//! The statements that ask the handler of a running job to stop.

use redrive_tests::{Sql, TestDatabase, statement};

#[test]
fn only_a_job_that_is_not_done_is_asked_to_stop_under_its_lease() {
    let (_test, mut client) = TestDatabase::with_client();
    client.sql("INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at, done) \
             SELECT gen_random_uuid(), gen_random_uuid(), 'orders', l.ids, '{order,order}', '{\"{}\",\"{}\"}', \
                    ARRAY[now(), now()], l.done \
             FROM (VALUES ('{1,2}'::bigint[], '{2}'::bigint[]), ('{3,4}', '{}')) AS l (ids, done)");
    let acts = |client: &mut postgres::Client| -> i64 {
        let count = "SELECT count(*) FROM redrive.audit WHERE verb = 'cancel_running_jobs'";
        client.ask(count, &[])
    };
    for (job, operator, asked) in [
        (1_i64, Some("maria"), 1),
        (4, None, 1),
        (2, Some("maria"), 0),
        (9, Some("maria"), 0),
    ] {
        let before = acts(&mut client);
        let told = client.query(statement("tell_cancelled"), &[&job]).unwrap();
        let marked = client.query(
            statement("mark_cancelled"),
            &[&job, &operator, &Some("wrong")],
        );
        assert_eq!(told.len(), asked, "job {job}");
        assert_eq!(marked.unwrap().len(), asked, "job {job}");
        let audited = asked == 1 && operator.is_some();
        assert_eq!(acts(&mut client) - before, i64::from(audited), "job {job}");
    }
    let cancelled: Vec<Vec<i64>> =
        client.column("SELECT cancelled FROM redrive.leases ORDER BY ids", &[]);
    assert_eq!(cancelled, [vec![1], vec![4]]);
}
