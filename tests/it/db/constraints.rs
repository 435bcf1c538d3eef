//! Constraints: the schema rejects illegal rows.

use redrive_tests::prelude::*;

const JOB: &str = "INSERT INTO redrive.jobs (segment, queue, kind, payload";
const DELAYED: &str = "INSERT INTO redrive.jobs_delayed (run_at, queue, kind, payload";
const WORKER: &str =
    "INSERT INTO redrive.workers (worker_id, queue, host, pid, version, slots, expires_at)";
const LEASE: &str =
    "INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at";
const ROW: &str = "'{1}', '{k}', ARRAY['{}'::json], ARRAY[now()]";
const LETTER: &str = "INSERT INTO redrive.dead_letters (queue, kind, cause, error_class, error_message, enqueued_at, payload";
const KEY: &str = "INSERT INTO redrive.unique_keys (queue, key, job_id)";
const COUNT: &str = "INSERT INTO redrive.metric_deltas (segment, queue, keys, counts)";
const BREAKER: &str = "INSERT INTO redrive.breakers (name, state, cause, delay_ms, probe_at)";

#[test]
fn the_schema_rejects_illegal_rows() {
    let long = "x".repeat(101);
    // What a column of a domain rejects in one table, it rejects in all.
    let job = |column: &str, value: &str| {
        format!("{JOB}, {column}) VALUES (0, 'q', 'k', '{{}}', {value})")
    };
    let letter = |column: &str, value: &str| {
        format!(
            "{LETTER}, {column}) VALUES ('q', 'k', 'rejected', 'c', 'm', now(), '{{}}', {value})"
        )
    };
    let illegal = [
        format!("{JOB}) VALUES (9, 'q', 'k', '{{}}')"),
        format!("{JOB}) VALUES (0, '', 'k', '{{}}')"),
        format!("{JOB}) VALUES (0, 'q', '', '{{}}')"),
        job("meta.attempt", "-1"),
        format!("{JOB}, meta.attempt, meta.max_attempts) VALUES (0, 'q', 'k', '{{}}', 5, 5)"),
        format!("{JOB}, meta.priority, rank) VALUES (0, 'q', 'k', '{{}}', 1001, -2002)"),
        job("meta.priority", "1"),
        job("meta.crashes", "32767"),
        job("meta.ready_at", "'infinity'"),
        job("meta.history", "'{}'"),
        job("meta.history", &format!("'[{}0]'", "0,".repeat(20))),
        job("meta.outage_since", "'infinity'"),
        job("meta.unique_key", "''"),
        job("meta.refunds", "-1"),
        job("meta.group_key", &format!("'{long}{long}'")),
        job("meta.headers", "'[]'"),
        format!("{DELAYED}) VALUES ('infinity', 'q', 'k', '{{}}')"),
        format!("{DELAYED}) VALUES ('1999-01-01', 'q', 'k', '{{}}')"),
        format!("{WORKER} VALUES (gen_random_uuid(), 'q', 'h', 1, 'v', 0, now())"),
        format!(
            "{LEASE}) VALUES (gen_random_uuid(), gen_random_uuid(), 'q', '{{}}', '{{}}', '{{}}', '{{}}')"
        ),
        format!(
            "{LEASE}, done) VALUES (gen_random_uuid(), gen_random_uuid(), 'q', {ROW}, '{{1}}')"
        ),
        format!("{LETTER}) VALUES ('q', 'k', 'bored', 'c', 'm', now(), '{{}}')"),
        format!("{LETTER}) VALUES ('q', 'k', 'rejected', 'c', 'm', now(), NULL)"),
        format!("{LETTER}) VALUES ('q', 'k', 'captured', 'c', 'm', now(), '{{}}')"),
        letter("source", "'s'"),
        letter("state", "'lost'"),
        letter("state", "'discarded'"),
        letter("discard_reason", "'w'"),
        letter("history", "'{}'"),
        letter("attempts", "-1"),
        letter("unique_key", "''"),
        letter("seen", "0"),
        letter("died_at", "'-infinity'"),
        format!("{KEY} VALUES ('q', '{long}{long}', 1)"),
        format!("{KEY} VALUES (' q', 'k', 1)"),
        format!("{KEY} VALUES (E'q\\n', 'k', 1)"),
        format!("{COUNT} VALUES (0, 'q', '{{enqueued,ended}}', '{{1,-1000000001}}')"),
        format!("{BREAKER} VALUES ('b', 'ajar', 'outage', 1, now())"),
        format!("{BREAKER} VALUES ('b', 'open', 'boredom', 1, now())"),
        format!("{BREAKER} VALUES ('b', 'open', 'outage', 0, now())"),
        format!("{BREAKER} VALUES ('b', 'open', 'outage', 1, NULL)"),
        format!("{BREAKER} VALUES ('b', 'closed', 'outage', 1, now())"),
        format!("{BREAKER} VALUES (' b', 'open', 'outage', 1, now())"),
        "INSERT INTO redrive.ring_segments (segment) VALUES (8)".to_owned(),
    ];
    let (_test, mut client) = TestDatabase::with_client();
    for statement in &illegal {
        // A check violation; a segment without a partition is one, too.
        client.refuses(statement, &[], "23514");
    }
}

#[test]
fn one_id_cannot_be_ready_twice_in_a_segment() {
    let (_test, mut client) = TestDatabase::with_client();
    let insert = "INSERT INTO redrive.jobs (id, segment, queue, kind, payload) VALUES (1, 0, 'q', 'k', '{}')";
    client.sql(insert);
    client.refuses(insert, &[], "23505");
}
