//! Finding and fixing what points at a job that is gone, and totals that differ from the rows.

use redrive_tests::prelude::*;

/// The kinds of faults and their places.
fn kinds(faults: &[Fault]) -> Vec<(&str, u64)> {
    let faults = faults.iter();
    faults.map(|it| (&*it.kind, it.places)).collect()
}

#[test]
fn what_points_at_jobs_that_are_gone_is_found_and_fixed() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let maria = Operator::new("maria").reason("a row was lost");
    let ids = letters(&queue, 4);
    let some = LetterFilter::new().ids([ids[0], ids[1]]);
    let unique = new_order(1).unique("a");
    put(&queue, unique);
    db.dlq().redrive(&some, &maria).unwrap();
    assert_eq!(db.admin().faults().unwrap(), [], "all jobs are live");
    test.run("repair");

    let mut client = test.client();
    client.sql(&format!(
            "DELETE FROM redrive.jobs;
             INSERT INTO redrive.group_slots (queue, group_key, slot, job_id) VALUES ('orders', 'g', 1, 10000);
             INSERT INTO redrive.redrive_runs (state, filter, total, cursor, sent) VALUES ('finished', '{{}}', 1, 1, 1);
             INSERT INTO redrive.run_letters (run_id, ordinal, letter_id)
             SELECT r.id, 1, {} FROM redrive.redrive_runs r",
            ids[3]
        ));
    let found = db.admin().faults().unwrap();
    let others = ["unique_key", "group_slot", "run", "counter"].map(|kind| (kind, 1));
    assert_eq!(kinds(&found), [&[("letter", 2)][..], &others].concat());
    assert_eq!(found[0].examples, [ids[0].to_string(), ids[1].to_string()]);
    assert_eq!(found[4].examples, ["orders live -3"]);
    test.fails(1, "repair --reason 'a restore'")
        .shows("the job is gone")
        .tells("to act, add --yes");
    let left = db.admin().faults().unwrap();
    assert_eq!(left, found, "a dry run changes nothing");

    assert_eq!(db.admin().repair(&maria).unwrap(), found);
    assert_eq!(db.admin().faults().unwrap(), []);
    assert_eq!(letters_in(db, "orders", LetterState::Open), 4);
    no_drift(db);
    let acts = "audit WHERE verb = 'repair' AND person = 'maria' AND reason = 'a row was lost'";
    assert_eq!(client.count(acts), 5);
    assert_eq!(client.count("runs WHERE still_running = 0"), 1);
    let deaths = client.count("failure_groups WHERE deaths = 4");
    assert_eq!(deaths, 1, "no letter died again");
    let again = db.dlq().redrive(&some, &maria).unwrap();
    assert_eq!(again.redriven.len(), 2);
    let unique = new_order(1).unique("a");
    put(&queue, unique);
    assert_eq!(client.count("live_jobs"), 3);
    no_drift(db);
}

#[test]
fn a_job_in_any_place_is_not_gone() {
    let (test, queue, _) = TestDatabase::with_letters(3);
    let db = queue.database();
    db.redrives(&LetterFilter::new());
    let mut client = test.client();
    // One is ready, one delayed, and one leased.
    client.sql("INSERT INTO redrive.jobs_delayed (id, run_at, queue, kind, payload, meta)
             SELECT j.id, now() + interval '1 hour', j.queue, j.kind, j.payload, j.meta
             FROM redrive.jobs j ORDER BY j.id LIMIT 1;
             INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at, metas[1].generation)
             SELECT gen_random_uuid(), gen_random_uuid(), j.queue, ARRAY[j.id], ARRAY[j.kind::text],
                    ARRAY[j.payload], ARRAY[j.enqueued_at], (j.meta).generation
             FROM redrive.jobs j ORDER BY j.id DESC LIMIT 1;
             DELETE FROM redrive.jobs j WHERE j.id IN (
                 SELECT d.id FROM redrive.jobs_delayed d UNION ALL SELECT l.ids[1] FROM redrive.leases l)");
    assert_eq!(db.admin().faults().unwrap(), []);
    client.sql("DELETE FROM redrive.leases");
    let found = db.admin().repair(&Operator::default()).unwrap();
    assert_eq!(kinds(&found), [("letter", 1), ("counter", 1)]);
}

#[test]
fn totals_groups_ids_and_schedules_are_fixed() {
    let (test, queue, _) = TestDatabase::with_letters(3);
    let db = queue.database();
    let mut client = test.client();
    client.sql("SELECT redrive.schedule('hourly', 'orders', 'order', '{}', every => '1 hour');
             UPDATE redrive.schedules SET next_at = NULL, changed_at = now() - interval '2 minutes'");
    let counts = "UPDATE redrive.groups SET open = 7; DELETE FROM redrive.letter_deltas";
    let metrics = "DELETE FROM redrive.metric_values; DELETE FROM redrive.metric_deltas";
    let many = "INSERT INTO redrive.metric_deltas (segment, queue, keys, counts)
                SELECT 0, 'orders', '{enqueued}', '{1000000000}' FROM generate_series(1, 3)";
    let sequence = "SELECT setval('redrive.job_id', 1, false)";
    // Logical replication copies rows, not sequences.
    let all = "SELECT setval('redrive.job_id', 1), setval('redrive.audit_id_seq', 1)";
    for (harm, expected) in [
        (counts, &[("schedule", 1), ("group_count", 1)][..]),
        (metrics, &[("counter", 1)]),
        (many, &[("counter", 1)]),
        (sequence, &[("sequence", 1)]),
        (all, &[("sequence", 2)]),
    ] {
        client.sql(harm);
        let found = db.admin().repair(&Operator::default()).unwrap();
        assert_eq!(kinds(&found), expected, "{harm}");
        assert_eq!(db.admin().faults().unwrap(), [], "{harm}");
        no_drift(db);
        let open = "SELECT sum(open)::bigint FROM redrive.failure_groups";
        assert_eq!(scalar(&mut client, open), 3, "{harm}");
    }
    let next = client.count("schedules WHERE next_at > now() + interval '50 minutes'");
    assert_eq!(next, 1);
    assert_eq!(scalar(&mut client, "SELECT nextval('redrive.job_id')"), 4);
}
