//! Live jobs by filter: list and count.

use redrive_tests::prelude::*;

/// Returns the ids of the jobs that match, and checks that the counts agree.
pub(super) fn ids(db: &Database, filter: &str) -> Vec<i64> {
    let filter: JobFilter = filter.parse().expect(filter);
    let jobs = db.admin().jobs();
    let found = jobs.list(&filter).unwrap();
    let count = jobs.count(&filter).unwrap();
    assert_eq!(count.jobs(), found.len() as u64, "{filter}");
    for (state, number) in [
        (JobState::Ready, count.ready),
        (JobState::Delayed, count.delayed),
        (JobState::Leased, count.leased),
    ] {
        let in_state = found.iter().filter(|job| job.state == state).count() as u64;
        assert_eq!(in_state, number, "{filter} {state}");
    }
    found.iter().map(|job| job.id.get()).collect()
}

/// Stores jobs 1 to 6, which differ in everything: two ready, two delayed, two in one lease.
fn six(client: &mut Client) {
    client.sql(r#"INSERT INTO redrive.jobs (segment, id, rank, queue, kind, payload, meta.priority, meta.unique_key, enqueued_at)
             VALUES (0, 1, 0, 'orders', 'placed', '{"amount": 5, "tags": ["x y"]}', 0, NULL, now() - interval '10 minutes'),
                    (3, 2, 20, 'orders', 'paid', '{"amount": 500}', -10, 'report-7', now());
             INSERT INTO redrive.jobs_delayed (id, queue, kind, payload, run_at, meta.attempt, meta.generation, enqueued_at)
             VALUES (3, 'orders', 'placed', '{"amount": 100.5}', now() + interval '1 hour', 2, 0, now() - interval '2 days'),
                    (4, 'mails', 'welcome', '"text"', now() + interval '1 hour', 0, 1, now());
             INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at, done)
             VALUES (gen_random_uuid(), gen_random_uuid(), 'orders', '{5,6,7}', '{placed,paid,placed}',
                     ARRAY['{"amount": 5}', '{"amount": 6}', '{"amount": 5}']::json[],
                     ARRAY[now(), now() - interval '1 hour', now()], '{7}')"#);
}

#[test]
fn every_condition_selects_the_matching_jobs() {
    let (test, db) = TestDatabase::opened();
    six(&mut test.client());
    for (filter, expected) in [
        ("", &[1, 2, 3, 4, 5, 6][..]),
        ("queue=orders", &[1, 2, 3, 5, 6]),
        ("kind=paid", &[2, 6]),
        ("state=ready", &[1, 2]),
        ("state=delayed", &[3, 4]),
        ("state=ready,leased kind=placed", &[1, 5]),
        ("id=2,3,99", &[2, 3]),
        ("id=2..4", &[2, 3, 4]),
        ("priority<0", &[2]),
        ("priority=0 state=ready", &[1]),
        ("attempts>=1", &[3, 5, 6]),
        ("generation>=1", &[4]),
        ("age>5m", &[1, 3, 6]),
        ("age<5m", &[2, 4, 5]),
        ("unique=report-7", &[2]),
        ("payload.amount=5", &[1, 5]),
        ("payload.amount>100 payload.amount<200", &[3]),
        ("payload.tags[0]=\"x y\"", &[1]),
        ("queue=orders state=ready payload.amount>=5 age>5m", &[1]),
    ] {
        assert_eq!(ids(&db, filter), expected, "{filter}");
    }
}

/// A payload that only a role with its own INSERT can store makes no listing fail.
#[test]
fn a_payload_that_jsonb_cannot_hold_matches_no_payload_condition() {
    let (test, db) = TestDatabase::opened();
    six(&mut test.client());
    test.sql(r#"UPDATE redrive.jobs SET payload = '{"amount": "\u0000"}' WHERE id = 1"#);
    assert_eq!(ids(&db, "payload.amount=5"), [5]);
    assert_eq!(ids(&db, "queue=orders state=ready"), [1, 2]);
}
