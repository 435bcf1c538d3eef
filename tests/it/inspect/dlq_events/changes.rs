//! The statements that change `dlq_events`: INSERT, claim, success, failure, archive and DELETE.

use redrive_tests::prelude::*;

use super::{event, one_death, with_search_path};

// The statements are the specification and run unchanged.
pub(super) const CLAIM: &str = "\
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

pub(super) const SUCCESS: &str = "\
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

/// The columns that an application fills; the others have the defaults of the published table.
const INSERT: &str = "\
INSERT INTO dlq_events (event_type, payload, error_reason, error_stacktrace)
VALUES ('order.created', '{\"order\": 7}', 'gateway timeout', 'at pay')
RETURNING id";

const GIVE_UP: &str = "UPDATE dlq_events SET status = 'FAILED_PERMANENTLY' WHERE id = $1";

pub(super) fn inserted(client: &mut Client) -> i64 {
    client.ask(INSERT, &[])
}

/// A database, a session of a consumer, and an event that is pending.
pub(super) fn one_event() -> (TestDatabase, Client, i64) {
    let test = TestDatabase::migrated();
    let mut client = with_search_path(&test);
    let id = inserted(&mut client);
    (test, client, id)
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
    let age = "UPDATE redrive.dead_letters SET retry_after = now() WHERE retry_after > now()";
    test.sql(age);
}

/// Ends every claim, and returns their number.
pub(super) fn expire_claims(test: &TestDatabase) -> u64 {
    let expire =
        "UPDATE redrive.dead_letters SET claimed_until = now() WHERE claimed_until > now()";
    test.client().execute(expire, &[]).unwrap()
}

#[test]
fn an_inserted_event_is_captured() {
    let (test, mut client, id) = one_event();
    assert_eq!(event(&test, id), is("PENDING", 0));
    let letter = test.open().listed(&only(JobId::new(id))).pop().unwrap();
    let found = [&letter.queue, &letter.kind, &letter.error_message];
    assert_eq!(found, ["dlq_events", "order.created", "gateway timeout"]);
    assert_eq!(letter.error_detail.as_deref(), Some("at pay"));
    let later = "INSERT INTO dlq_events (event_type, payload, error_reason, status, retry_count, retry_after, created_at)
                 VALUES ('order.created', '{}', 'down', 'PENDING', 4, now() + interval '1 hour', now() - interval '1 day')
                 RETURNING id";
    let later = scalar(&mut client, later);
    assert_eq!(event(&test, later), is("PENDING", 4));
    let first = claimed(&mut client);
    assert_eq!(first, [id], "the other one waits for an hour");
    let given_up = "INSERT INTO dlq_events (event_type, payload, error_reason, status)
                    VALUES ('order.created', '{}', 'bad', 'FAILED_PERMANENTLY') RETURNING id";
    let given_up = scalar(&mut client, given_up);
    assert_eq!(event(&test, given_up).0, "FAILED_PERMANENTLY");
    for refused in [
        "INSERT INTO dlq_events (id, event_type, payload, error_reason) VALUES (1, 'a', '{}', 'b')",
        "INSERT INTO dlq_events (event_type, payload, error_reason, status) VALUES ('a', '{}', 'b', 'NEW')",
        "INSERT INTO dlq_events (event_type, payload, error_reason, retry_count) VALUES ('a', '{}', 'b', 2147483647)",
        "INSERT INTO dlq_events (event_type, payload, error_reason, created_at) VALUES ('a', '{}', 'b', '-infinity')",
        "UPDATE dlq_events SET retry_count = 2147483647",
    ] {
        client.refuses(refused, &[], "22023");
    }
    no_drift(&test.open());
}

#[test]
fn a_claimed_event_that_succeeds_is_recovered() {
    let (test, mut client, id) = one_event();
    assert_eq!(claimed(&mut client), [id]);
    assert_eq!(event(&test, id), is("PROCESSING", 0));
    assert_eq!(claimed(&mut client), [0_i64; 0], "it is claimed once");
    let (db, letter) = (test.open(), JobId::new(id));
    let one = only(letter);
    assert_eq!(db.redrives(&one).skipped, [(letter, Skip::Claimed)]);
    let preview = db.dlq().preview_redrive(&one, &RedriveOptions::new());
    assert_eq!(preview.unwrap().left_out[0].reason, Skip::Claimed);
    assert_eq!(client.execute(SUCCESS, &[&id]).unwrap(), 1);
    assert_eq!(event(&test, id).0, "SUCCEEDED");
    assert_eq!(client.execute(SUCCESS, &[&id]).unwrap(), 1, "repeated");
    assert_eq!(claimed(&mut client), [0_i64; 0]);
    let elsewhere = "SELECT (SELECT count(*) FROM live_jobs) + (SELECT count(*) FROM workers)";
    let found = scalar(&mut client, elsewhere);
    assert_eq!(found, 0, "a claim is no job and no worker");
    no_drift(&test.open());
}

#[test]
fn a_claimed_event_that_fails_waits_for_its_retry() {
    let (test, mut client, id) = one_event();
    for retries in 0..7 {
        assert_eq!(claimed(&mut client), [id], "retry {retries}");
        assert_eq!(event(&test, id), is("PROCESSING", retries));
        let reason = format!("still down {retries}");
        assert_eq!(client.execute(FAILURE, &[&id, &reason]).unwrap(), 1);
        assert_eq!(event(&test, id), is("PENDING", retries + 1));
        let wait = "SELECT error_reason, round(extract(epoch FROM retry_after - updated_at) / 60)::integer FROM dlq_events";
        let wait: (String, i32) = client.row(wait, &[]);
        assert_eq!(wait, (reason, 1 << retries), "minutes of backoff");
        assert_eq!(claimed(&mut client), [0_i64; 0], "before its time");
        age_retries(&test);
    }
    assert_eq!(claimed(&mut client), [id]);
    assert_eq!(client.execute(GIVE_UP, &[&id]).unwrap(), 1);
    assert_eq!(event(&test, id), is("FAILED_PERMANENTLY", 7));
    assert_eq!(claimed(&mut client), [0_i64; 0]);
    let letter = test.open().letter(JobId::new(id));
    let said = letter.history.iter().map(|past| past.error_message.clone());
    let failures = (0..7).map(|retries| format!("still down {retries}"));
    let expected = ["gateway timeout".to_owned()].into_iter().chain(failures);
    assert!(said.eq(expected.map(Some)), "{letter:?}");
    assert_eq!(letter.history[1].attempt, 1);
    assert_eq!(letter.history[7].attempt, 7);
    let groups = "SELECT concat_ws(' ', title, open, deaths) FROM failure_groups ORDER BY id";
    let groups: Vec<String> = client.column(groups, &[]);
    // The letter is in the group of its last failure, and so is its death.
    assert_eq!(groups, ["gateway timeout 0 0", "still down ? 1 1"]);
    no_drift(&test.open());
}

#[test]
fn a_claim_lasts_for_a_positive_time_of_at_most_ten_years() {
    let (_test, mut client, _) = one_event();
    for time in ["0", "-1 s", "3651 days"] {
        client.sql(&format!("SET redrive.claim_time = '{time}'"));
        for refused in [
            "INSERT INTO dlq_events (event_type, payload, error_reason) VALUES ('a', '{}', 'b')",
            "UPDATE dlq_events SET status = 'PROCESSING'",
        ] {
            client.refuses(refused, &[], "claim_time");
        }
    }
}

#[test]
fn the_event_of_a_crashed_consumer_is_pending_again_without_a_worker() {
    let test = TestDatabase::migrated();
    let mut client = with_search_path(&test);
    client.sql("SET redrive.claim_time = '1 hour'");
    let id = inserted(&mut client);
    assert_eq!(claimed(&mut client), [id]);
    let kept =
        "SELECT round(extract(epoch FROM claimed_until - now()) / 60)::bigint FROM dead_letters";
    assert_eq!(scalar(&mut client, kept), 60);
    assert_eq!(expire_claims(&test), 1);
    assert_eq!(event(&test, id), is("PENDING", 0));
    assert_eq!(claimed(&mut client), [id]);
    assert_eq!(event(&test, id), is("PROCESSING", 1));
    let recovery =
        "UPDATE dlq_events SET status = 'PENDING', retry_after = NOW() + INTERVAL '30 seconds'
                    WHERE status = 'PROCESSING' AND updated_at < NOW() - INTERVAL '10 minutes'";
    assert_eq!(client.execute(recovery, &[]).unwrap(), 0, "a new claim");
    let age = "UPDATE redrive.dead_letters SET changed_at = now() - interval '11 minutes'";
    test.sql(age);
    assert_eq!(client.execute(recovery, &[]).unwrap(), 1);
    assert_eq!(event(&test, id), is("PENDING", 2));
    assert_eq!(claimed(&mut client), [0_i64; 0], "before its time");
    age_retries(&test);
    assert_eq!(claimed(&mut client), [id]);
    no_drift(&test.open());
}

#[test]
fn an_event_that_kills_its_consumers_is_left_to_an_operator() {
    let (test, mut client, id) = one_event();
    let give_back = "UPDATE dlq_events SET status = 'PENDING' WHERE status = 'PROCESSING'";
    // An outcome in between begins the count again.
    for abandoned in [9, 10] {
        for claim in 0..abandoned {
            assert_eq!(claimed(&mut client), [id], "{claim} of {abandoned}");
            match claim % 2 {
                0 => assert_eq!(expire_claims(&test), 1),
                _ => assert_eq!(client.execute(give_back, &[]).unwrap(), 1),
            }
        }
        if abandoned == 9 {
            assert_eq!(claimed(&mut client), [id]);
            client.change(FAILURE, &[&id, &"down"]);
            age_retries(&test);
        }
    }
    assert_eq!(event(&test, id), is("FAILED_PERMANENTLY", 20));
    assert_eq!(claimed(&mut client), [0_i64; 0]);
    let letter = test.open().letter(JobId::new(id));
    let last = letter.history.last().unwrap();
    let said = last.error_message.as_deref();
    assert_eq!(said, Some("a consumer claimed it and reported no outcome"));
    client.sql("UPDATE dlq_events SET status = 'PENDING'");
    assert_eq!(test.count("audit WHERE verb = 'redrive'"), 1);
    assert_eq!(claimed(&mut client), [id], "an operator offered it again");
    assert_eq!(expire_claims(&test), 1);
    assert_eq!(claimed(&mut client), [id], "the count began again");
    no_drift(&test.open());
}

#[test]
fn the_payload_of_an_event_is_jsonb_and_can_be_edited() {
    let (test, mut client, id) = one_event();
    let edit = "UPDATE dlq_events SET payload = payload || '{\"currency\": \"EUR\"}' WHERE payload @> '{\"order\": 7}'";
    assert_eq!(client.execute(edit, &[]).unwrap(), 1);
    assert_eq!(event(&test, id), is("PENDING", 0));
    let fixed =
        "SELECT count(*) FROM dlq_events WHERE payload ? 'currency' AND payload['order'] = '7'";
    assert_eq!(scalar(&mut client, fixed), 1);
    let db = test.open();
    let versions = db.dlq().versions(JobId::new(id)).unwrap();
    assert_eq!(versions.len(), 1, "the payload before the edit is kept");
    let audited = "SELECT count(*) FROM audit WHERE verb = 'edit'";
    assert_eq!(scalar(&mut client, audited), 1);
}

#[test]
fn other_changes_of_events_are_errors() {
    let test = TestDatabase::migrated();
    let id = one_death(&test, || Failure::reject("bad"));
    let mut client = with_search_path(&test);
    let waiting = inserted(&mut client);
    let mut not_now = |sql: &str, id: i64, why: &str| {
        for says in ["55000", why, &format!("event {id}")] {
            client.refuses(sql, &[&id], says);
        }
    };
    let claim = "UPDATE dlq_events SET status = 'PROCESSING' WHERE id = $1";
    not_now(claim, id, "PENDING first");
    let unknown = "UPDATE dlq_events SET status = 'DONE' WHERE id = $1";
    not_now(unknown, waiting, "no such status");
    not_now("DELETE FROM dlq_events WHERE id = $1", id, "not closed");
    let archive = "INSERT INTO dlq_events_archive SELECT * FROM dlq_events WHERE id = $1";
    not_now(archive, waiting, "not closed");
    let change = |sql: &str| test.client().execute(sql, &[]).unwrap();
    change("UPDATE redrive.dead_letters SET state = 'quarantined' WHERE retry_after IS NULL");
    not_now(SUCCESS, id, "quarantined");
    change("UPDATE redrive.dead_letters SET redacted = '{/order}' WHERE retry_after IS NOT NULL");
    assert_eq!(event(&test, waiting).0, "FAILED_PERMANENTLY");
    let again = "UPDATE dlq_events SET status = 'PENDING' WHERE id = $1";
    not_now(again, waiting, "redacted");
    let renamed = "UPDATE dlq_events SET event_type = 'other' WHERE id = $1";
    for says in ["0A000", "event_type", &format!("event {id}")] {
        client.refuses(renamed, &[&id], says);
    }
}
