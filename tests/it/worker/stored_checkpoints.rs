//! The statement that stores checkpoints: what it changes in the leases, and what it leaves alone.

use postgres::Client;
use redrive_tests::{TestDatabase, statement};
use serde_json::{Value, json};
use uuid::Uuid;

/// The limit of the headers of a job, in bytes of their text.
const LIMIT: usize = 65_536;

/// Stores a lease of jobs without headers.
fn lease(client: &mut Client, ids: &[i64]) -> Uuid {
    let insert = "INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at) \
                  SELECT gen_random_uuid(), gen_random_uuid(), 'orders', $1, array_agg('order'::text), \
                         array_agg('{}'::json), array_agg(now()) \
                  FROM unnest($1::bigint[]) RETURNING lease_id";
    client.query_one(insert, &[&ids]).unwrap().get(0)
}

/// Stores headers of jobs, each under the lease that its worker claimed it with. Returns the leases that are held.
fn store(client: &mut Client, headers: &[(Uuid, i64, Value)]) -> Vec<Uuid> {
    let leases: Vec<Uuid> = headers.iter().map(|(lease, _, _)| *lease).collect();
    let jobs: Vec<i64> = headers.iter().map(|(_, job, _)| *job).collect();
    let values: Vec<&Value> = headers.iter().map(|(_, _, value)| value).collect();
    let rows = client
        .query(statement("checkpoint"), &[&leases, &jobs, &values])
        .unwrap();
    rows.iter().map(|row| row.get("lease_id")).collect()
}

/// The headers of the jobs of a lease.
fn headers(client: &mut Client, lease: Uuid) -> Vec<Option<Value>> {
    let query =
        "SELECT array_agg(m.headers) FROM redrive.leases, unnest(metas) AS m WHERE lease_id = $1";
    let headers: Option<Vec<Option<Value>>> = client.query_one(query, &[&lease]).unwrap().get(0);
    headers.unwrap_or_default()
}

#[test]
fn a_checkpoint_reaches_only_its_job_under_the_lease_that_ran_it() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let (mine, other) = (lease(&mut client, &[1, 2]), lease(&mut client, &[3]));
    let lost = Uuid::new_v4();
    let step = |step: i64| json!({"step": step});
    // The worker lost job 1 under another lease, and it runs again under this one.
    let held = store(&mut client, &[(lost, 1, step(7)), (mine, 2, step(2))]);
    assert_eq!(held, [mine]);
    assert_eq!(headers(&mut client, mine), [None, Some(step(2))]);
    assert_eq!(headers(&mut client, other), [None; 0]);
}

#[test]
fn headers_beyond_the_limit_are_not_stored() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let lease = lease(&mut client, &[1]);
    let sized =
        |bytes: usize| json!({"a": "x".repeat(bytes - json!({"a": ""}).to_string().len() - 1)});
    for (bytes, is_stored) in [(LIMIT + 1, false), (LIMIT, true)] {
        let value = sized(bytes);
        let text = "SELECT octet_length($1::jsonb::text)";
        let length: i32 = client.query_one(text, &[&value]).unwrap().get(0);
        assert_eq!(usize::try_from(length).unwrap(), bytes);
        store(&mut client, &[(lease, 1, value.clone())]);
        let expected = is_stored.then_some(value);
        assert_eq!(headers(&mut client, lease), [expected], "{bytes}");
    }
}
