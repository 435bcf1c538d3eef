//! The statements that change `dlq_events`: INSERT, claim, success, failure, archive and DELETE.

use std::collections::BTreeSet;
use std::time::Duration;

use postgres::Client;
use postgres::error::SqlState;
use redrive::dlq::LetterFilter;
use redrive::{Backoff, Failure, Job, JobId, NewJob};
use redrive_tests::{
    Gate, Order, TestDatabase, counted, drained, expire_leases, ids, no_drift, scalar, stop, worker,
};

use super::{event, one_death, with_search_path};

// The statements are the specification and run unchanged.
const CLAIM: &str = "\
-- Find and lock events ready for retry
WITH eligible_events AS (
SELECT id
FROM dlq_events
WHERE status = 'PENDING'
AND retry_after <= NOW()
ORDER BY retry_after
LIMIT 50
FOR UPDATE SKIP LOCKED
)
UPDATE dlq_events
SET status = 'PROCESSING',
updated_at = NOW()
WHERE id IN (SELECT id FROM eligible_events)
RETURNING *;";

const SUCCESS: &str = "\
-- On success
UPDATE dlq_events
SET status = 'SUCCEEDED',
updated_at = NOW()
WHERE id = $1;";

const FAILURE: &str = "\
-- On failure (schedule for retry with exponential backoff)
UPDATE dlq_events
SET status = 'PENDING',
retry_count = retry_count + 1,
retry_after = NOW() + (INTERVAL '1 minute' * POWER(2, retry_count)),
error_reason = $2,
updated_at = NOW()
WHERE id = $1;";

const ARCHIVE: &str = "\
-- Archive old succeeded events
INSERT INTO dlq_events_archive
SELECT * FROM dlq_events
WHERE status = 'SUCCEEDED'
AND updated_at < NOW() - INTERVAL '30 days';";

const DELETE_OLD: &str = "\
DELETE FROM dlq_events
WHERE status = 'SUCCEEDED'
AND updated_at < NOW() - INTERVAL '30 days';";

/// The columns that an application fills; the others have the defaults of the published table.
const INSERT: &str = "\
INSERT INTO dlq_events (event_type, payload, error_reason, error_stacktrace)
VALUES ('order.created', '{\"order\": 7}', 'gateway timeout', 'at pay')
RETURNING id";

pub(super) const GIVE_UP: &str =
    "UPDATE dlq_events SET status = 'FAILED_PERMANENTLY' WHERE id = $1";

pub(super) fn inserted(client: &mut Client) -> i64 {
    client.query_one(INSERT, &[]).unwrap().get(0)
}

pub(super) fn claimed(client: &mut Client) -> Vec<i64> {
    let rows = client.query(CLAIM, &[]).unwrap();
    for row in &rows {
        assert_eq!(row.get::<_, &str>("status"), "PROCESSING");
    }
    rows.iter().map(|row| row.get("id")).collect()
}

fn is(status: &str, retries: i32) -> (String, i32) {
    (status.to_owned(), retries)
}

/// Ends every wait for a retry.
fn age_retries(test: &TestDatabase) {
    let age = "UPDATE redrive.jobs_delayed SET run_at = now() - interval '1 second'";
    test.client().execute(age, &[]).unwrap();
}

#[test]
fn an_inserted_event_is_captured() {
    let test = TestDatabase::migrated();
    let mut client = with_search_path(&test);
    let id = inserted(&mut client);
    assert_eq!(event(&test, id), is("PENDING", 0));
    let letter = test
        .open()
        .dlq()
        .list(&LetterFilter::new().ids([JobId::new(id)]))
        .unwrap()
        .pop()
        .unwrap();
    assert_eq!(
        (&*letter.queue, &*letter.kind, &*letter.error_message),
        ("dlq_events", "order.created", "gateway timeout")
    );
    assert_eq!(letter.error_detail.as_deref(), Some("at pay"));
    let later = "INSERT INTO dlq_events (event_type, payload, error_reason, status, retry_count, retry_after, created_at)
                 VALUES ('order.created', '{}', 'down', 'PENDING', 4, now() + interval '1 hour', now() - interval '1 day')
                 RETURNING id";
    let later: i64 = client.query_one(later, &[]).unwrap().get(0);
    assert_eq!(event(&test, later), is("PENDING", 4));
    assert_eq!(
        claimed(&mut client),
        [id],
        "the other one waits for an hour"
    );
    let given_up = "INSERT INTO dlq_events (event_type, payload, error_reason, status)
                    VALUES ('order.created', '{}', 'bad', 'FAILED_PERMANENTLY') RETURNING id";
    let given_up: i64 = client.query_one(given_up, &[]).unwrap().get(0);
    assert_eq!(event(&test, given_up).0, "FAILED_PERMANENTLY");
    for refused in [
        "INSERT INTO dlq_events (id, event_type, payload, error_reason) VALUES (1, 'a', '{}', 'b')",
        "INSERT INTO dlq_events (event_type, payload, error_reason, status) VALUES ('a', '{}', 'b', 'NEW')",
    ] {
        let error = client.execute(refused, &[]).unwrap_err();
        assert_eq!(
            error.code(),
            Some(&SqlState::INVALID_PARAMETER_VALUE),
            "{refused}"
        );
    }
    no_drift(&test.open());
}

#[test]
fn a_claimed_event_that_succeeds_is_recovered() {
    let test = TestDatabase::migrated();
    let mut client = with_search_path(&test);
    let id = inserted(&mut client);
    assert_eq!(claimed(&mut client), [id]);
    assert_eq!(event(&test, id), is("PROCESSING", 0));
    assert_eq!(claimed(&mut client), [0_i64; 0], "it is claimed once");
    assert_eq!(client.execute(SUCCESS, &[&id]).unwrap(), 1);
    assert_eq!(event(&test, id).0, "SUCCEEDED");
    assert_eq!(client.execute(SUCCESS, &[&id]).unwrap(), 1, "repeated");
    assert_eq!(claimed(&mut client), [0_i64; 0]);
    assert_eq!(scalar(&mut client, "SELECT count(*) FROM leases"), 0);
    no_drift(&test.open());
}

#[test]
fn a_claimed_event_that_fails_waits_for_its_retry() {
    let test = TestDatabase::migrated();
    let mut client = with_search_path(&test);
    let id = inserted(&mut client);
    for retries in 0..7 {
        assert_eq!(claimed(&mut client), [id], "retry {retries}");
        assert_eq!(event(&test, id), is("PROCESSING", retries));
        let reason = format!("still down {retries}");
        assert_eq!(client.execute(FAILURE, &[&id, &reason]).unwrap(), 1);
        assert_eq!(event(&test, id), is("PENDING", retries + 1));
        let row = client
            .query_one(
                "SELECT error_reason, round(extract(epoch FROM retry_after - updated_at) / 60)::integer FROM dlq_events",
                &[],
            )
            .unwrap();
        assert_eq!(row.get::<_, &str>(0), reason);
        assert_eq!(row.get::<_, i32>(1), 1 << retries, "minutes of backoff");
        assert_eq!(claimed(&mut client), [0_i64; 0], "before its time");
        age_retries(&test);
    }
    assert_eq!(claimed(&mut client), [id]);
    assert_eq!(client.execute(GIVE_UP, &[&id]).unwrap(), 1);
    assert_eq!(event(&test, id), is("FAILED_PERMANENTLY", 8));
    assert_eq!(claimed(&mut client), [0_i64; 0]);
    no_drift(&test.open());
}

#[test]
fn outcomes_need_no_claim() {
    let test = TestDatabase::migrated();
    let mut client = with_search_path(&test);
    let [fixed, failed, given_up] = [(); 3].map(|()| inserted(&mut client));
    client.execute(SUCCESS, &[&fixed]).unwrap();
    client.execute(FAILURE, &[&failed, &"down"]).unwrap();
    client.execute(GIVE_UP, &[&given_up]).unwrap();
    assert_eq!(event(&test, fixed).0, "SUCCEEDED");
    assert_eq!(event(&test, failed), is("PENDING", 1));
    assert_eq!(event(&test, given_up).0, "FAILED_PERMANENTLY");
    let again = "UPDATE dlq_events SET status = 'PENDING', retry_after = NOW() WHERE id = $1";
    client.execute(again, &[&given_up]).unwrap();
    assert_eq!(
        event(&test, given_up),
        is("PENDING", 1),
        "an operator's retry is no failure"
    );
    let audited = "SELECT count(*) FROM audit WHERE verb = 'redrive'";
    assert_eq!(scalar(&mut client, audited), 1);
    no_drift(&test.open());
}

#[test]
fn two_consumers_claim_different_events() {
    let test = TestDatabase::migrated();
    let mut one = with_search_path(&test);
    let mut other = with_search_path(&test);
    let all: BTreeSet<i64> = (0..60).map(|_| inserted(&mut one)).collect();
    let mut transaction = one.transaction().unwrap();
    let first: BTreeSet<i64> = transaction
        .query(CLAIM, &[])
        .unwrap()
        .iter()
        .map(|row| row.get("id"))
        .collect();
    assert_eq!(first.len(), 50);
    let meanwhile = claimed(&mut other);
    assert!(
        meanwhile.iter().all(|id| !first.contains(id)),
        "{meanwhile:?}"
    );
    transaction.commit().unwrap();
    let mut second: BTreeSet<i64> = meanwhile.into_iter().collect();
    second.extend(claimed(&mut other));
    assert!(first.is_disjoint(&second));
    assert_eq!(first.union(&second).copied().collect::<BTreeSet<_>>(), all);
}

#[test]
fn an_event_of_a_crashed_consumer_is_pending_again() {
    let test = TestDatabase::migrated();
    let mut client = with_search_path(&test);
    client
        .batch_execute("SET redrive.claim_time = '1 hour'")
        .unwrap();
    let id = inserted(&mut client);
    assert_eq!(claimed(&mut client), [id]);
    let kept = "SELECT round(extract(epoch FROM expires_at - now()) / 60)::bigint FROM workers";
    assert_eq!(scalar(&mut client, kept), 60);
    for crash in 1..3 {
        assert_eq!(expire_leases(&mut test.client()).len(), 1, "crash {crash}");
        assert_eq!(event(&test, id).0, "PENDING");
        age_retries(&test);
        assert_eq!(claimed(&mut client), [id]);
    }
    expire_leases(&mut test.client());
    assert_eq!(event(&test, id).0, "FAILED_PERMANENTLY", "three crashes");
    no_drift(&test.open());
}

#[test]
fn a_consumer_and_a_worker_share_the_jobs_of_a_queue() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let failing = worker(&queue)
        .backoff(Backoff::fixed(Duration::from_hours(1)))
        .handle(|_: &Job<Order>| Err(Failure::retry("down")))
        .start()
        .unwrap();
    let jobs = Order::up_to(2);
    let jobs: Vec<_> = jobs
        .iter()
        .map(|order| NewJob::new(order).unwrap())
        .collect();
    let jobs = ids(&queue.enqueue_jobs(&jobs).unwrap());
    counted(&failing, "both to fail", |counts| counts.retried == 2);
    stop(failing);
    let mut client = with_search_path(&test);
    assert_eq!(claimed(&mut client), [0_i64; 0], "they wait for an hour");
    age_retries(&test);
    let mut found = claimed(&mut client);
    found.sort_unstable();
    assert_eq!(found, [jobs[0].get(), jobs[1].get()]);
    client.execute(SUCCESS, &[&found[0]]).unwrap();
    client
        .execute(FAILURE, &[&found[1], &"down again"])
        .unwrap();
    assert_eq!(event(&test, found[1]), is("PENDING", 2));
    age_retries(&test);
    let gate = Gate::new();
    let fixed = worker(&queue)
        .handle({
            let gate = gate.clone();
            move |job: &Job<Order>| {
                assert_eq!(job.attempt(), 3);
                gate.pass();
                Ok(())
            }
        })
        .start()
        .unwrap();
    gate.wait_for(1);
    let error = client.execute(SUCCESS, &[&found[1]]).unwrap_err();
    let code = Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
    assert_eq!(error.code(), code, "a worker runs it");
    assert_eq!(claimed(&mut client), [0_i64; 0]);
    gate.open();
    drained(&queue);
    stop(fixed);
    no_drift(&test.open());
}

#[test]
fn the_events_of_a_policy_can_be_claimed() {
    let test = TestDatabase::migrated();
    let id = one_death(&test, || Failure::retry("down"));
    let mut client = with_search_path(&test);
    assert_eq!(claimed(&mut client), [0_i64; 0]);
    client
        .batch_execute(
            "SELECT set_policy('s', '{\"queue\": \"orders\"}', '6 hours', 50, 240);
             UPDATE policies SET next_at = now() - interval '1 second'",
        )
        .unwrap();
    assert_eq!(claimed(&mut client), [id]);
    client.execute(SUCCESS, &[&id]).unwrap();
    assert_eq!(event(&test, id).0, "SUCCEEDED");
}

#[test]
fn other_changes_of_events_are_errors() {
    let test = TestDatabase::migrated();
    let id = one_death(&test, || Failure::reject("bad"));
    let mut client = with_search_path(&test);
    let mut refused = |sql: &str, code: &SqlState| {
        let error = client.execute(sql, &[&id]).unwrap_err();
        assert_eq!(error.code(), Some(code), "{sql}: {error:?}");
    };
    refused(
        "UPDATE dlq_events SET status = 'PROCESSING' WHERE id = $1",
        &SqlState::INVALID_PARAMETER_VALUE,
    );
    refused(
        "UPDATE dlq_events SET status = 'DONE' WHERE id = $1",
        &SqlState::INVALID_PARAMETER_VALUE,
    );
    refused(
        "UPDATE dlq_events SET payload = '{}' WHERE id = $1",
        &SqlState::FEATURE_NOT_SUPPORTED,
    );
    refused(
        "DELETE FROM dlq_events WHERE id = $1",
        &SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
    );
    test.client()
        .execute("UPDATE redrive.dead_letters SET state = 'quarantined'", &[])
        .unwrap();
    refused(SUCCESS, &SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
}

#[test]
fn old_events_are_archived_and_deleted() {
    let test = TestDatabase::migrated();
    let mut client = with_search_path(&test);
    let [old, older, new] = [(); 3].map(|()| inserted(&mut client));
    for id in [old, older, new] {
        client.execute(SUCCESS, &[&id]).unwrap();
    }
    let age = "UPDATE redrive.dead_letters SET changed_at = now() - interval '31 days' WHERE id = ANY ($1)";
    test.client().execute(age, &[&vec![old, older]]).unwrap();
    assert_eq!(client.execute(ARCHIVE, &[]).unwrap(), 2);
    let rows = client
        .query("SELECT * FROM dlq_events_archive ORDER BY id", &[])
        .unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].get::<_, i64>("id"), old);
    assert_eq!(rows[0].get::<_, &str>("status"), "SUCCEEDED");
    assert_eq!(rows[0].get::<_, &str>("error_reason"), "gateway timeout");
    assert_eq!(rows[0].get::<_, serde_json::Value>("payload")["order"], 7);
    assert_eq!(
        client.execute(DELETE_OLD, &[]).unwrap(),
        0,
        "they are archived"
    );
    test.client().execute(age, &[&vec![new]]).unwrap();
    assert_eq!(client.execute(DELETE_OLD, &[]).unwrap(), 1);
    assert_eq!(scalar(&mut client, "SELECT count(*) FROM dlq_events"), 0);
    let acts = client
        .query(
            "SELECT letters, about ->> 'action' FROM audit WHERE verb = 'prune' ORDER BY id",
            &[],
        )
        .unwrap();
    let acts: Vec<(i64, String)> = acts.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(acts, [(2, "archive".to_owned()), (1, "delete".to_owned())]);
    no_drift(&test.open());
}
