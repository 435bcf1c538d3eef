//! The statements: each is valid and documented, and the claim has the plan it relies on.

use postgres::Client;
use postgres::types::Type;
use redrive::Job;
use redrive_tests::{Order, TestDatabase, counted, drained, statement, stop, worker};
use serde_json::Value;

#[test]
fn every_statement_is_valid_in_a_migrated_database() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
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
    let test = TestDatabase::migrated();
    let mut client = test.client();
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

#[test]
fn every_statement_header_names_purpose_caller_locks_index_and_rows() {
    for (name, text) in redrive::statements() {
        let comment: Vec<&str> = text
            .lines()
            .take_while(|line| line.starts_with("--"))
            .collect();
        let comment = comment.join("\n");
        for heading in [
            "-- Purpose: ",
            "-- Called by: ",
            "-- Locks: ",
            "-- Index relied on: ",
            "-- Rows: ",
        ] {
            assert!(
                comment.contains(heading),
                "{name}.sql says nothing about `{heading}`"
            );
        }
        assert!(!text.contains("SELECT *"), "{name}.sql lists no columns");
        for parameter in (1..=20).filter(|number| text.contains(&format!("${number}"))) {
            assert!(
                comment.contains(&format!("${parameter}")),
                "{name}.sql does not describe ${parameter}"
            );
        }
    }
}

#[test]
fn statement_names_are_unique() {
    let mut names: Vec<&str> = redrive::statements().map(|(name, _)| name).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

/// Returns the generic plan of the claim in JSON.
fn plan_of_the_claim(client: &mut Client) -> String {
    client
        .batch_execute(
            "SET enable_seqscan = off; SET jit = off; SET plan_cache_mode = force_generic_plan; DEALLOCATE ALL",
        )
        .unwrap();
    client
        .batch_execute(&format!("PREPARE claim AS {}", statement("claim")))
        .unwrap();
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
fn the_claim_uses_an_index_range_on_an_empty_analyzed_table() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client.batch_execute("ANALYZE redrive.jobs").unwrap();
    is_by_range(&plan_of_the_claim(&mut client));
}

#[test]
fn the_claim_uses_an_index_range_on_a_full_table_without_statistics() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client
        .batch_execute(
            "ALTER TABLE redrive.jobs_0 SET (autovacuum_enabled = off); \
             INSERT INTO redrive.jobs (segment, queue, kind, payload, priority) \
             SELECT 0, 'orders', 'order', '{\"number\": 1}', n % 3 FROM generate_series(1, 100000) n",
        )
        .unwrap();
    is_by_range(&plan_of_the_claim(&mut client));
}

#[test]
fn a_worker_with_plans_from_an_empty_table_drains_a_burst() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client.batch_execute("ANALYZE").unwrap();
    let queue = test.queue("orders");
    let worker = worker(&queue)
        .slots(2)
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
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

/// The lines of a statement after its header.
fn body(name: &str) -> Vec<&'static str> {
    let lines = statement(name).lines();
    lines.skip_while(|line| line.starts_with("--")).collect()
}

#[test]
fn the_claim_of_a_window_differs_from_the_claim_only_in_what_it_reads() {
    let (claim, window) = (body("claim"), body("claim_window"));
    let only_in = |these: &[&'static str], others: &[&str]| -> Vec<&'static str> {
        let is_different = |line: &&&str| !others.contains(*line);
        these
            .iter()
            .filter(is_different)
            .map(|line| line.trim())
            .collect()
    };
    let rank = "(j.generation > 0)::integer - 2 * j.priority";
    assert_eq!(
        only_in(&claim, &window),
        [
            "FROM unnest($9::integer[], $10::bigint[], $11::integer[])".to_owned(),
            "WITH ORDINALITY AS range (from_rank, from_id, to_rank, ordinal)".to_owned(),
            format!("AND ({rank}, j.id) > (range.from_rank, range.from_id)"),
            format!("AND {rank} < range.to_rank"),
        ]
    );
    assert_eq!(
        only_in(&window, &claim),
        [
            "FROM unnest($9::integer[], $10::bigint[], $11::bigint[])".to_owned(),
            "WITH ORDINALITY AS range (rank, from_id, to_id, ordinal)".to_owned(),
            format!("AND {rank} = range.rank"),
            "AND j.id > range.from_id".to_owned(),
            "AND j.id <= range.to_id".to_owned(),
        ]
    );
}

/// Returns the conditions of each search for ready jobs.
fn searches(name: &str) -> Vec<Vec<&'static str>> {
    let mut searches: Vec<Vec<&str>> = Vec::new();
    let mut is_within = false;
    for line in body(name).into_iter().map(str::trim) {
        is_within = match line {
            line if line.starts_with("WHERE j.queue") => {
                searches.push(Vec::new());
                true
            }
            line => is_within && !line.starts_with("ORDER BY"),
        };
        if is_within {
            searches.last_mut().expect("one began").push(line);
        }
    }
    searches
}

#[test]
fn a_probe_is_searched_for_under_the_conditions_of_both_claims() {
    let claims = [searches("claim"), searches("claim_window")].concat();
    assert_eq!(claims.len(), 2);
    let claimed: Vec<Vec<String>> = claims
        .iter()
        .map(|conditions| {
            let renumbered = conditions.iter().map(|line| {
                line.replace("$12::text[]", "$6::text[]")
                    .replace("$6::integer", "$7::integer")
                    .replace("$2::text[]", "$5::text[]")
                    .replace("j.queue = $1", "j.queue = $4")
            });
            renumbered.collect()
        })
        .collect();
    assert_eq!(searches("take_probe"), claimed);
}
