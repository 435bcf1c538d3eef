//! A held xmin horizon: no statement slows down with the dead rows that vacuum cannot remove.

mod oldest_kept;
mod ready;

use std::time::Duration;

use postgres::Client;
use redrive::Job;
use redrive_tests::{
    Begin, Gate, Order, SOON, Sql, TestDatabase, counted, fewest_pages, scalar, snapshot,
    statement, stop, wait_until, worker,
};

/// The planner settings of the connections of a worker.
const PINNED: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off; SET plan_cache_mode = force_generic_plan";

/// A queue with a few rows in each table, and without autovacuum.
const FRESH: &str = "
    DO $$
    DECLARE
        t text;
    BEGIN
        FOR t IN SELECT c.oid::regclass FROM pg_class c WHERE c.relnamespace = 'redrive'::regnamespace AND c.relkind = 'r'
        LOOP
            EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', t);
        END LOOP;
    END
    $$;
    INSERT INTO redrive.jobs (segment, queue, kind, payload) SELECT 0, 'orders', 'order', '{}' FROM generate_series(1, 1000);
    INSERT INTO redrive.workers (worker_id, queue, host, pid, version, slots, expires_at)
    SELECT ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, 'orders', 'h', 1, 'v', 1, now() + interval '1 hour'
    FROM generate_series(1, 100) n;
    INSERT INTO redrive.jobs_delayed (run_at, queue, kind, payload)
    SELECT now() + interval '1 hour', 'orders', 'order', '{}' FROM generate_series(1, 100)";

/// Transactions that leave dead rows behind.
const CHURN: [&str; 10] = [
    "DO $$ BEGIN FOR n IN 1..300 LOOP
         UPDATE redrive.workers SET expires_at = clock_timestamp() + interval '1 hour';
     END LOOP; END $$",
    "INSERT INTO redrive.letter_deltas (group_id, deaths, open, redriving, recovered, discarded, quarantined)
     SELECT n, 0, 0, 0, 0, 0, 0 FROM generate_series(1, 100000) n",
    "DELETE FROM redrive.letter_deltas",
    "INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at)
     SELECT gen_random_uuid(), ('00000000-0000-0000-0000-' || lpad((n % 100 + 1)::text, 12, '0'))::uuid, 'orders',
            ARRAY[n], '{order}', ARRAY['{}'::json], ARRAY[now()]
     FROM generate_series(1, 30000::bigint) n",
    "DELETE FROM redrive.leases",
    "INSERT INTO redrive.jobs_delayed (run_at, queue, kind, payload)
     SELECT now() - interval '1 minute', 'orders', 'order', '{}' FROM generate_series(1, 20000)",
    "DELETE FROM redrive.jobs_delayed WHERE run_at < now()",
    "INSERT INTO redrive.unique_windows
     SELECT 'orders', 'w' || n, n, now() FROM generate_series(1, 20000) n",
    "DELETE FROM redrive.unique_windows",
    // As a worker does that met them.
    "INSERT INTO redrive.delayed_marks VALUES ('orders', now() - interval '5 seconds', 0)",
];

/// Runs the transactions that name this.
fn churn(client: &mut Client, naming: &str) {
    for statement in CHURN.iter().filter(|churn| churn.contains(naming)) {
        client.sql(statement);
    }
}

/// The statements that must not slow down, with their arguments.
const HOT: [(&str, &str); 9] = [
    ("enqueue_one", "'orders', 'order', '{}', 0, 5"),
    (
        "enqueue_unique",
        "'orders', '{order}', '{\"{}\"}', '{0}', '{0}', '{5}', '{k7}', '{NULL}', '{g1}', '{60000}'",
    ),
    (
        "claim_one",
        "'orders', NULL, NULL, 0, gen_random_uuid(), gen_random_uuid()",
    ),
    ("promote", "'orders', 1000, NULL, NULL, 10000"),
    (
        "renew",
        "'{00000000-0000-0000-0000-000000000001}', '{orders}', 'h', 1, 'v', '{1}', '{NULL}', '{60000}'",
    ),
    ("chores", "'{00000000-0000-0000-0000-000000000001}', 60000"),
    (
        "reap",
        "60000, 100, 3, 5000, 'manual', 10000, 16777216, ARRAY[gen_random_uuid()]",
    ),
    ("metrics_operations", ""),
    ("metrics_queues", ""),
];

/// Returns how many pages each hot statement touches.
fn pages(test: &TestDatabase) -> Vec<(&'static str, i64)> {
    let mut client = test.client();
    client.sql(PINNED);
    HOT.map(|(name, arguments)| (name, touched(&mut client, name, arguments)))
        .into()
}

/// Returns how many pages a statement touches.
fn touched(client: &mut Client, name: &str, arguments: &str) -> i64 {
    let execute = match arguments {
        "" => format!("EXECUTE {name}"),
        arguments => format!("EXECUTE {name} ({arguments})"),
    };
    client.sql(&format!("PREPARE {name} AS {}", statement(name)));
    let pages = fewest_pages(client, &execute).pages;
    client.sql(&format!("DEALLOCATE {name}"));
    pages
}

/// Makes the snapshot that is held now the one of the last turn.
const HELD_BEFORE: &str = "UPDATE redrive.compactions SET kept_xid = redrive.oldest_kept_xid()";

/// Compacts tables until none is due. Returns their names.
fn compact(client: &mut Client) -> Vec<String> {
    let mut compacted = Vec::new();
    loop {
        match client.ask(statement("compact"), &[]) {
            Some(table) => compacted.push(table),
            None => return compacted,
        }
    }
}

#[test]
fn no_hot_statement_reads_the_dead_rows_of_a_held_snapshot() {
    let test = TestDatabase::migrated();
    let (mut client, mut holder) = (test.client(), test.client());
    client.sql(FRESH);
    let fresh = pages(&test);
    let horizon = snapshot(&mut holder);
    churn(&mut client, "");
    client.sql("VACUUM");
    let slow = pages(&test);
    client.sql(HELD_BEFORE);
    let mut compacted = compact(&mut client);
    compacted.sort();
    assert_eq!(
        compacted,
        ["leases", "letter_deltas", "workers"].map(|table| format!("redrive.{table}"))
    );
    let compact = pages(&test);
    for ((name, fresh), (_, compact)) in fresh.iter().zip(&compact) {
        assert!(
            // A scan that follows an index visits its few pages in another order, and counts each visit.
            10 * compact <= 13 * fresh + 1000,
            "{name}: {fresh} pages, then {compact}\nfresh {fresh:?}\nbefore {slow:?}\nafter {compact:?}"
        );
    }
    let sizes =
        "SELECT sum(redrive.table_bytes(relation::regclass))::bigint FROM redrive.compactions";
    let bytes = scalar(&mut client, sizes);
    assert!(bytes < 100_000, "{bytes} bytes");
    assert_eq!(client.count("workers"), 100);
    horizon.commit().unwrap();
}

#[test]
fn the_ring_leaves_no_dead_row_that_an_enqueue_reads() {
    let test = TestDatabase::migrated();
    let (mut client, mut holder) = (test.client(), test.client());
    let horizon = snapshot(&mut holder);
    let fresh = pages(&test)[0];
    client.sql(
        "DO $$ BEGIN FOR n IN 1..2000 LOOP PERFORM redrive.turn_ring(0, 1000); END LOOP; END $$",
    );
    let turned = pages(&test)[0];
    assert!(turned.1 <= fresh.1 + 4, "{fresh:?}, then {turned:?}");
    horizon.commit().unwrap();
}

#[test]
fn a_worker_compacts_what_is_full_of_dead_rows() {
    let test = TestDatabase::migrated();
    let (mut client, mut holder) = (test.client(), test.client());
    let horizon = snapshot(&mut holder);
    client.sql(
        "UPDATE redrive.compactions SET min_bytes = 8192 WHERE relation = 'redrive.letter_deltas'",
    );
    churn(&mut client, "letter_deltas");
    let worker = worker(&test.queue("orders"))
        .lease(Duration::from_secs(2))
        .runs(|_: &Job<Order>| Ok(()));
    wait_until("the worker to compact", SOON, || {
        let size = "SELECT redrive.table_bytes('redrive.letter_deltas') = 0";
        client.ask(size, &[])
    });
    stop(worker);
    horizon.commit().unwrap();
}

#[test]
fn leased_jobs_survive_the_compaction_of_their_leases() {
    let (test, queue) = TestDatabase::with_orders();
    let (mut client, mut holder) = (test.client(), test.client());
    let horizon = snapshot(&mut holder);
    let gate = Gate::new();
    let worker = worker(&queue).runs(gate.passing::<Order>());
    queue.enqueue(&Order { number: 1 }).unwrap();
    gate.wait_for(1);
    churn(&mut client, "INTO redrive.leases");
    client.sql("DELETE FROM redrive.leases WHERE worker_id::text LIKE '00000000%'");
    let rows = "SELECT array_agg(l::text) FROM redrive.leases l";
    let before: Vec<String> = client.ask(rows, &[]);
    client.sql(HELD_BEFORE);
    let is_rewritten = "SELECT redrive.table_bytes('redrive.leases') < 100000";
    wait_until("leases to be compacted", SOON, || {
        compact(&mut client);
        client.ask(is_rewritten, &[])
    });
    let after: Vec<String> = client.ask(rows, &[]);
    assert_eq!(after, before);
    assert!(!queue.is_drained().unwrap());
    gate.open();
    counted(&worker, "the job to be done", |counts| counts.done == 1);
    assert_eq!(stop(worker).stats.lost, 0);
    assert!(queue.is_drained().unwrap());
    horizon.commit().unwrap();
}

#[test]
fn small_leases_are_left_to_vacuum_unless_a_snapshot_is_held() {
    let test = TestDatabase::migrated();
    let (mut client, mut holder) = (test.client(), test.client());
    client.sql("ALTER TABLE redrive.leases SET (autovacuum_enabled = off)");
    churn(&mut client, "redrive.leases");
    let mut next_turn = |set: &str| {
        let due = format!("UPDATE redrive.compactions SET retry_at = '-infinity'{set}");
        client.sql(&due);
        compact(&mut client)
    };
    assert_eq!(next_turn(""), [""; 0]);
    assert_eq!(next_turn(""), [""; 0]);
    let horizon = snapshot(&mut holder);
    // Another transaction was the oldest at the last turn.
    assert_eq!(next_turn(", kept_xid = '3'"), [""; 0]);
    assert_eq!(next_turn(""), ["redrive.leases"]);
    horizon.commit().unwrap();
}

#[test]
fn large_leases_are_compacted_whether_or_not_a_snapshot_is_held() {
    let (_test, mut client) = TestDatabase::with_client();
    client.sql("ALTER TABLE redrive.leases SET (autovacuum_enabled = off); \
             UPDATE redrive.compactions SET vacuum_bytes = min_bytes WHERE relation = 'redrive.leases'");
    churn(&mut client, "redrive.leases");
    assert_eq!(compact(&mut client), ["redrive.leases"]);
}

#[test]
fn a_lease_that_is_being_rewritten_is_not_missed() {
    let (test, queue) = TestDatabase::with_orders();
    let (mut client, mut rewriting) = (test.client(), test.client());
    let store = "INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at) \
                 VALUES (gen_random_uuid(), gen_random_uuid(), 'orders', '{1}', '{order}', ARRAY['{}'::json], '{now}')";
    client.sql(store);
    let mut rewrite = rewriting.transaction().unwrap();
    rewrite.sql("LOCK TABLE redrive.leases IN ACCESS EXCLUSIVE MODE; TRUNCATE redrive.leases");
    rewrite.sql(store);
    let checking = std::thread::spawn(move || queue.is_drained().unwrap());
    let waits = "SELECT EXISTS (SELECT FROM pg_locks l WHERE NOT l.granted AND l.relation = 'redrive.leases'::regclass \
                 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))";
    wait_until("the check to wait", SOON, || client.ask(waits, &[]));
    rewrite.commit().unwrap();
    assert!(!checking.join().unwrap());
}

#[test]
fn a_compaction_gives_up_while_a_transaction_keeps_the_table() {
    let test = TestDatabase::migrated();
    let (mut client, mut reader) = (test.client(), test.client());
    churn(&mut client, "letter_deltas");
    let mut reading = reader.transaction().unwrap();
    reading.sql("SELECT FROM redrive.letter_deltas");
    assert_eq!(compact(&mut client), [""; 0]);
    let waits = "SELECT retry_at > clock_timestamp() FROM redrive.compactions WHERE relation = 'redrive.letter_deltas'";
    assert!(client.ask::<bool>(waits, &[]));
    reading.commit().unwrap();
    client.sql("UPDATE redrive.compactions SET retry_at = '-infinity'");
    assert_eq!(compact(&mut client), ["redrive.letter_deltas"]);
}

#[test]
fn a_table_with_many_live_rows_is_left_to_vacuum() {
    let (_test, mut client) = TestDatabase::with_client();
    client.sql("INSERT INTO redrive.letter_deltas (group_id, deaths, open, redriving, recovered, discarded, quarantined) \
             SELECT n, 0, 0, 0, 0, 0, 0 FROM generate_series(1, 20000) n; \
             UPDATE redrive.compactions SET max_rows = 19999");
    assert_eq!(compact(&mut client), [""; 0]);
    assert_eq!(client.count("letter_deltas"), 20_000);
}
