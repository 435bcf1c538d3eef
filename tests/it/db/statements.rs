//! The statements: each is valid and documented, and the claim has the plan it relies on.

use postgres::Client;
use postgres::types::Type;
use redrive::Job;
use redrive_tests::{Begin, Order, Sql, TestDatabase, counted, drained, statement, stop, worker};
use serde_json::Value;

#[test]
fn every_statement_is_valid_in_a_migrated_database() {
    let (_test, mut client) = TestDatabase::with_client();
    let mut statements = 0;
    for (name, text) in redrive::statements() {
        statements += 1;
        if name.starts_with("copy_") {
            let copy = client
                .copy_in(text)
                .unwrap_or_else(|error| panic!("{name}: {error:?}"));
            // Only the frame of the format: signature, flags, extension, trailer.
            let mut empty = b"PGCOPY\n\xff\r\n\0".to_vec();
            empty.extend([0; 8]);
            empty.extend([0xff, 0xff]);
            let mut copy = copy;
            std::io::Write::write_all(&mut copy, &empty).unwrap();
            assert_eq!(
                copy.finish()
                    .unwrap_or_else(|error| panic!("{name}: {error:?}")),
                0
            );
        } else {
            client
                .prepare(text)
                .unwrap_or_else(|error| panic!("{name}: {error:?}"));
        }
    }
    assert!(statements > 20, "only {statements} statements");
}

#[test]
fn every_statement_header_lists_the_types_of_its_parameters() {
    let (_test, mut client) = TestDatabase::with_client();
    let texts = redrive::statements().map(|(_, text)| text);
    for ((name, declared), text) in redrive::signatures().zip(texts) {
        let prepared = client.prepare(text).expect(name);
        assert_eq!(declared, prepared.params(), "{name}.sql");
        // Of any other type the driver asks by statements that it prepares, and keeps, by name.
        for column in prepared.columns() {
            let known = Type::from_oid(column.type_().oid());
            assert!(known.is_some(), "{name}.sql answers {column:?}");
        }
    }
}

/// Returns the generic plan of the claim in JSON.
fn plan_of_the_claim(client: &mut Client) -> String {
    client.sql("SET enable_seqscan = off; SET jit = off; SET plan_cache_mode = force_generic_plan; DEALLOCATE ALL");
    client.sql(&format!("PREPARE claim AS {}", statement("claim")));
    let explain = "EXPLAIN (FORMAT JSON) EXECUTE claim('orders', NULL, '{}', 500, 8388608, 1, \
         gen_random_uuid(), gen_random_uuid(), '{-32768}', '{0}', '{32767}', NULL, 2)";
    let row = client.query_one(explain, &[]).unwrap();
    row.get::<_, Value>(0).to_string()
}

#[track_caller]
fn is_by_range(plan: &str) {
    assert!(
        !reads_jobs_sequentially(plan),
        "a sequential scan of the jobs: {plan}"
    );
    // The range is a condition of the index, in every segment, and not a filter behind it.
    let value: Value = serde_json::from_str(plan).unwrap();
    let mut scans = Vec::new();
    collect(&value, &mut scans);
    assert_eq!(scans.len(), 8, "one index scan a segment: {plan}");
    for condition in scans {
        for bound in ["queue", "from_rank", "from_id", "to_rank"] {
            assert!(condition.contains(bound), "no `{bound}` in {condition}");
        }
    }
}

/// The conditions of the scans of the claim index.
fn collect(node: &Value, scans: &mut Vec<String>) {
    match node {
        Value::Object(fields) => {
            let is_claim = fields
                .get("Index Name")
                .and_then(|name| name.as_str())
                .is_some_and(|name| name.starts_with("jobs_") && name.contains("_queue_"));
            if is_claim {
                let condition = fields.get("Index Cond").map(ToString::to_string);
                scans.push(condition.unwrap_or_default());
            }
            fields.values().for_each(|child| collect(child, scans));
        }
        Value::Array(items) => items.iter().for_each(|child| collect(child, scans)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn reads_jobs_sequentially(plan: &str) -> bool {
    let value: Value = serde_json::from_str(plan).unwrap();
    sequential(&value)
}

fn sequential(node: &Value) -> bool {
    match node {
        Value::Object(fields) => {
            let of_jobs = fields
                .get("Relation Name")
                .and_then(|name| name.as_str())
                .is_some_and(|name| name.starts_with("jobs_"));
            let seq = fields.get("Node Type").and_then(|kind| kind.as_str()) == Some("Seq Scan");
            (of_jobs && seq) || fields.values().any(sequential)
        }
        Value::Array(items) => items.iter().any(sequential),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[test]
fn the_claim_uses_an_index_range_on_a_full_table_without_statistics() {
    let (_test, mut client) = TestDatabase::with_client();
    client.sql("ALTER TABLE redrive.jobs_0 SET (autovacuum_enabled = off); \
             INSERT INTO redrive.jobs (segment, rank, queue, kind, payload, meta.priority) \
             SELECT 0, -2 * (n % 3), 'orders', 'order', '{\"number\": 1}', n % 3 FROM generate_series(1, 100000) n");
    is_by_range(&plan_of_the_claim(&mut client));
}

#[test]
fn a_worker_with_plans_from_an_empty_table_drains_a_burst() {
    let (test, mut client) = TestDatabase::with_client();
    client.sql("ANALYZE");
    let queue = test.queue("orders");
    let worker = worker(&queue)
        .slots(2)
        .handle(|_: &Job<Order>| Ok(()))
        .started();
    // Enough claims for the server to cache a generic plan.
    for round in 1..=10 {
        queue.enqueue(&Order { number: 1 }).unwrap();
        counted(&worker, "the job to be done", |counts| counts.done == round);
    }
    queue.enqueue_many(&Order::up_to(50_000)).unwrap();
    drained(&queue);
    counted(&worker, "the burst to be done", |counts| {
        counts.done == 50_010
    });
    stop(worker);
}

/// A block with an exception handler starts a subtransaction, which a parallel query cannot do.
#[test]
fn no_function_that_handles_exceptions_runs_in_a_parallel_query() {
    let test = TestDatabase::migrated();
    let asked = r"SELECT proname::text FROM pg_proc WHERE pronamespace = 'redrive'::regnamespace
                  AND proparallel <> 'u' AND prosrc ~ '\mEXCEPTION\M\s+\mWHEN\M'";
    let found: Vec<String> = test.client().column(asked, &[]);
    assert_eq!(found, Vec::<String>::new());
}
