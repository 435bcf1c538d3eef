//! What the sources of metrics say, against rows that a test wrote.

use postgres::Client;
use redrive::metrics::{CATALOGUE, Reader, Reading, Source};
use redrive_tests::{Order, SOON, TestDatabase, number, read, reads, wait_until};

/// A queue in every state: a worker that is busy, one that waits, one that is lost, leases of theirs.
const LIVE: &str = "
    INSERT INTO redrive.workers (worker_id, queue, host, pid, version, slots, kinds, waiting, expires_at) VALUES
        ('00000000-0000-0000-0000-000000000001', 'orders', 'h', 1, '1', 4, NULL, false, now() + interval '1 hour'),
        ('00000000-0000-0000-0000-000000000002', 'orders', 'h', 2, '1', 2, '{order}', true, now() + interval '1 hour'),
        ('00000000-0000-0000-0000-000000000003', 'orders', 'h', 3, '1', 8, '{order}', false, now() - interval '1 minute');
    INSERT INTO redrive.leases (lease_id, worker_id, queue, claimed_at, jobs, done)
    SELECT gen_random_uuid(), w.worker_id::uuid, 'orders', now() - w.age, ARRAY(
               SELECT ROW(n, 'order', 0, jsonb_build_object('pad', repeat('x', 100)), 1, 5, 0, 0, 0, now(), NULL, NULL, NULL)::redrive.leased_job
               FROM generate_series(1, w.jobs) n), w.done::integer[]
    FROM (VALUES ('00000000-0000-0000-0000-000000000001', interval '10 seconds', 6, '{1,2}'),
                 ('00000000-0000-0000-0000-000000000001', interval '5 seconds', 3, '{}'),
                 ('00000000-0000-0000-0000-000000000003', interval '100 seconds', 2, '{}'),
                 ('00000000-0000-0000-0000-000000000009', interval '90 seconds', 1, '{}'),
                 ('00000000-0000-0000-0000-000000000009', interval '70 seconds', 1, '{}')) AS w (worker_id, age, jobs, done);
    INSERT INTO redrive.jobs (segment, queue, kind, payload, priority, ready_at)
    SELECT 0, 'orders', 'order', '{}', CASE n WHEN 2 THEN 5 ELSE 0 END, now() - n * interval '1 hour'
    FROM generate_series(1, 3) n;
    INSERT INTO redrive.jobs_delayed (run_at, queue, kind, payload)
    SELECT now() + interval '1 hour', q, 'order', '{}' FROM unnest('{orders,orders,mail}'::text[]) q";

fn reading(client: &mut Client) -> Reading {
    let reading = read(&mut Reader::new("1"), client);
    assert!(reading.failures.is_empty(), "{:?}", reading.failures);
    reading
}

#[track_caller]
fn about(reading: &Reading, name: &str, labels: &[&str], value: f64) {
    let found = number(&reading.families, name, labels);
    // A database of a test may be slow, but not by minutes.
    let is_near = found.is_some_and(|found| found >= value && found < value + 600.0);
    assert!(is_near, "{name}{labels:?}: {found:?}, not about {value}");
}

#[test]
fn live_jobs_are_told_by_queue_and_state_with_their_ages() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client.batch_execute(LIVE).unwrap();
    let reading = reading(&mut client);
    for (queue, state, jobs) in [
        ("orders", "ready", 3.0),
        ("orders", "delayed", 2.0),
        ("orders", "leased", 11.0),
        ("mail", "ready", 0.0),
        ("mail", "delayed", 1.0),
        ("mail", "leased", 0.0),
    ] {
        reads(&reading, "redrive_queue_jobs", &[queue, state], jobs);
        reads(&reading, "redrive_queue_jobs_capped", &[queue, state], 0.0);
    }
    // The second one has the highest priority, so it is the first in the order of claims.
    about(
        &reading,
        "redrive_queue_oldest_ready_age_seconds",
        &["orders"],
        7200.0,
    );
    reads(
        &reading,
        "redrive_queue_oldest_ready_age_seconds",
        &["mail"],
        0.0,
    );
    about(
        &reading,
        "redrive_queue_oldest_leased_age_seconds",
        &["orders"],
        100.0,
    );
    reads(
        &reading,
        "redrive_queue_oldest_leased_age_seconds",
        &["mail"],
        0.0,
    );
    reads(&reading, "redrive_queue_overdue_leases", &["orders"], 3.0);
}

#[test]
fn what_is_over_the_cap_says_so() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let mut add = |queue: &str, jobs: i32| {
        let added = "INSERT INTO redrive.jobs (segment, queue, kind, payload) \
                     SELECT n % 4, $1::text, 'order', '{}' FROM generate_series(1, $2) n";
        client.execute(added, &[&queue, &jobs]).unwrap();
        reading(&mut client)
    };
    let capped = |reading: &Reading, queue: &str, jobs: f64, is_capped: f64| {
        reads(reading, "redrive_queue_jobs", &[queue, "ready"], jobs);
        reads(
            reading,
            "redrive_queue_jobs_capped",
            &[queue, "ready"],
            is_capped,
        );
    };
    capped(&add("full", 10_000), "full", 10_000.0, 0.0);
    capped(&add("full", 1), "full", 10_000.0, 1.0);
    // The queues share what is counted.
    let shared = add("brim", 5_000);
    capped(&shared, "full", 5_000.0, 1.0);
    capped(&shared, "brim", 5_000.0, 0.0);
}

#[test]
fn letters_are_told_by_age_and_for_how_long_they_are_kept() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client
        .batch_execute(
            "INSERT INTO redrive.dead_letters (queue, kind, reason, error_class, error_message, payload, enqueued_at, died_at, state) \
             SELECT 'orders', 'order', 'rejected', 'E', 'e', '{}', now(), now() - h * interval '1 hour', s \
             FROM (VALUES (0, 'open'), (2, 'open'), (30, 'open'), (200, 'open'), (300, 'recovered')) v (h, s); \
             INSERT INTO redrive.retention (queue, state, keep, action, even_open) VALUES \
                 (NULL, 'open', '30 days', 'archive', false), ('orders', 'open', '10 days', 'archive', false), \
                 ('orders', 'recovered', '1 day', 'delete', false); \
             INSERT INTO redrive.workers (worker_id, queue, host, pid, version, slots, expires_at) \
             VALUES (gen_random_uuid(), 'mail', 'h', 1, '1', 1, now())",
        )
        .unwrap();
    let reading = reading(&mut client);
    about(
        &reading,
        "redrive_dlq_oldest_age_seconds",
        &["orders"],
        200.0 * 3600.0,
    );
    reads(&reading, "redrive_dlq_oldest_age_seconds", &["mail"], 0.0);
    for (age, letters) in [("1h", 3.0), ("1d", 2.0), ("7d", 1.0)] {
        reads(
            &reading,
            "redrive_dlq_letters_older_than",
            &["orders", age],
            letters,
        );
        reads(
            &reading,
            "redrive_dlq_letters_older_than",
            &["mail", age],
            0.0,
        );
    }
    reads(
        &reading,
        "redrive_dlq_retention_seconds",
        &["orders"],
        864_000.0,
    );
    reads(
        &reading,
        "redrive_dlq_retention_seconds",
        &["mail"],
        2_592_000.0,
    );
}

#[test]
fn operations_are_told() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client.batch_execute(LIVE).unwrap();
    client
        .batch_execute(
            "INSERT INTO redrive.breakers (name, state, why, kinds, delay_ms, probe_at) VALUES \
                 ('queue:mail', 'open', 'operator', '{}', 1000, 'infinity'), \
                 ('gateway', 'half_open', 'outage', '{order}', 1000, now()), \
                 ('queue:orders', 'closed', 'outage', '{}', 1000, NULL); \
             INSERT INTO redrive.groups (fingerprint, queue, kind, error_class, title, sample, state, regressions) \
             SELECT gen_random_uuid(), 'orders', 'order', 'E', 't', 's', s, r \
             FROM (VALUES ('open', 2), ('open', 0), ('resolved', 1)) v (s, r); \
             INSERT INTO redrive.redrive_runs (state, filter, total, cursor, sent, skipped, recovered, died_alike, halted_because) VALUES \
                 ('running', '{}', 100, 40, 38, 2, 10, 3, NULL), ('halted', '{}', 10, 4, 4, 0, 0, 4, 'b'), \
                 ('finished', '{}', 5, 5, 5, 0, 5, 0, NULL); \
             INSERT INTO redrive.run_deltas (run_id, recovered, died_alike, died_differently) VALUES (1, 1, 0, 2)",
        )
        .unwrap();
    let reading = reading(&mut client);
    for (name, labels, value) in [
        ("redrive_workers", &["orders", "busy"][..], 1.0),
        ("redrive_workers", &["orders", "waiting"], 1.0),
        ("redrive_workers", &["orders", "expired"], 1.0),
        ("redrive_workers", &["mail", "busy"], 0.0),
        ("redrive_worker_slots", &["orders"], 6.0),
        ("redrive_worker_slots_busy", &["orders"], 4.0),
        ("redrive_breakers", &["mail", "open"], 1.0),
        ("redrive_breakers", &["orders", "half_open"], 1.0),
        ("redrive_breakers", &["orders", "open"], 0.0),
        ("redrive_failure_groups", &["orders", "open"], 2.0),
        ("redrive_failure_groups", &["orders", "resolved"], 1.0),
        ("redrive_failure_groups", &["orders", "ignored"], 0.0),
        ("redrive_group_regressions_total", &["orders"], 3.0),
        ("redrive_runs", &["running"], 1.0),
        ("redrive_runs", &["halted"], 1.0),
        ("redrive_runs", &["paused"], 0.0),
        ("redrive_run_letters_waiting", &[], 66.0),
        ("redrive_run_letters_unsettled", &[], 22.0),
        ("redrive_run_outcomes_total", &["recovered"], 16.0),
        ("redrive_run_outcomes_total", &["died_alike"], 7.0),
        ("redrive_run_outcomes_total", &["died_differently"], 2.0),
    ] {
        reads(&reading, name, labels, value);
    }
}

#[test]
fn a_breaker_of_a_dependency_without_workers_is_told_as_well() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client
        .batch_execute(
            "INSERT INTO redrive.breakers (name, state, why, kinds, delay_ms, probe_at) \
             VALUES ('gateway', 'open', 'outage', '{order}', 1000, now())",
        )
        .unwrap();
    reads(
        &reading(&mut client),
        "redrive_breakers",
        &["__other__", "open"],
        1.0,
    );
}

#[test]
fn regressions_of_groups_that_are_forgotten_still_count() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client
        .batch_execute(
            "INSERT INTO redrive.groups (fingerprint, queue, kind, error_class, title, sample, regressions, last_seen) \
             SELECT gen_random_uuid(), 'orders', 'order', 'E', 't', 's', n, now() - interval '1 year' \
             FROM generate_series(0, 3) n",
        )
        .unwrap();
    for _ in 0..2 {
        reads(
            &reading(&mut client),
            "redrive_group_regressions_total",
            &["orders"],
            6.0,
        );
        client
            .batch_execute("SELECT redrive.forget_groups('90 days')")
            .unwrap();
    }
    let left = client
        .query_one("SELECT count(*) FROM redrive.groups", &[])
        .unwrap();
    assert_eq!(left.get::<_, i64>(0), 0);
}

#[test]
fn outcomes_of_runs_without_a_driver_are_folded_and_stay_what_they_are() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client
        .batch_execute(
            "INSERT INTO redrive.redrive_runs (state, filter, total, cursor, sent, recovered) VALUES \
                 ('running', '{}', 100, 50, 50, 0), ('finished', '{}', 100, 100, 100, 1), \
                 ('cancelled', '{}', 100, 50, 50, 0); \
             INSERT INTO redrive.run_deltas (run_id, recovered, died_alike, died_differently) \
             SELECT n % 3 + 1, 1, 2, 3 FROM generate_series(1, 30) n",
        )
        .unwrap();
    let numbers = "SELECT array_agg(ARRAY[recovered, died_alike, died_differently] ORDER BY id)::text FROM redrive.runs";
    let mut told = || client.query_one(numbers, &[]).unwrap().get::<_, String>(0);
    let before = told();
    assert_eq!(before, "{{10,20,30},{11,20,30},{10,20,30}}");
    let mut other = test.client();
    let folded = other.query_one("SELECT redrive.fold_runs()", &[]).unwrap();
    assert_eq!(folded.get::<_, i64>(0), 20);
    assert_eq!(told(), before);
    let left = "SELECT DISTINCT run_id FROM redrive.run_deltas";
    let left: Vec<i64> = other
        .query(left, &[])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(left, [1], "its driver folds the one that runs");
}

#[test]
fn tables_are_told_and_the_ring_says_when_it_turned_and_truncated() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let mut client = test.client();
    let before = reading(&mut client);
    reads(
        &before,
        "redrive_ring_truncated_timestamp_seconds",
        &[],
        0.0,
    );
    queue.enqueue_many(&Order::up_to(500)).unwrap();
    for step in ["turned", "truncated"] {
        let took = client
            .query_one("SELECT redrive.turn_ring(8192, 0)", &[])
            .unwrap();
        assert_eq!(took.get::<_, String>(0), step);
        client.batch_execute("DELETE FROM redrive.jobs").unwrap();
    }
    queue.enqueue_many(&Order::up_to(500)).unwrap();
    client.batch_execute("VACUUM ANALYZE redrive.jobs").unwrap();
    let reading = reading(&mut client);
    let now: f64 = client
        .query_one("SELECT extract(epoch FROM clock_timestamp())::float8", &[])
        .unwrap()
        .get(0);
    for name in [
        "redrive_ring_turned_timestamp_seconds",
        "redrive_ring_truncated_timestamp_seconds",
    ] {
        about(&reading, name, &[], now - 500.0);
    }
    // Four segments, each with its own 10000.
    reads(
        &reading,
        "redrive_table_autovacuum_threshold_rows",
        &["jobs"],
        40_000.0,
    );
    // 1000 and 0.02 of nothing.
    reads(
        &reading,
        "redrive_table_autovacuum_threshold_rows",
        &["dead_letters"],
        1000.0,
    );
    reads(
        &reading,
        "redrive_table_live_rows_estimate",
        &["jobs"],
        500.0,
    );
    for (part, table) in [("heap", "jobs"), ("index", "jobs"), ("toast", "groups")] {
        let bytes = number(&reading.families, "redrive_table_bytes", &[table, part]);
        assert!(bytes.unwrap() > 0.0, "{table} {part}");
    }
    let index = number(
        &reading.families,
        "redrive_index_bytes",
        &["jobs", "jobs_for_claim"],
    );
    assert!(index.unwrap() > 0.0);
    let vacuumed = [
        "redrive_table_vacuums_total",
        "redrive_table_last_vacuum_timestamp_seconds",
    ];
    for name in vacuumed {
        let manual = number(&reading.families, name, &["jobs", "manual"]);
        assert!(manual.unwrap() > 0.0, "{name}");
        reads(&reading, name, &["jobs", "auto"], 0.0);
    }
}

#[test]
fn the_threshold_of_autovacuum_is_the_tables_own_else_the_servers() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let mut threshold = |options: &str, rows: f64| -> f64 {
        let asked = "SELECT redrive.vacuum_threshold($1::text::text[], $2)";
        client.query_one(asked, &[&options, &rows]).unwrap().get(0)
    };
    for (options, rows, expected) in [
        ("{}", 1000.0, 250.0),
        ("{}", -1.0, 50.0),
        ("{autovacuum_vacuum_threshold=7}", 1000.0, 207.0),
        ("{autovacuum_vacuum_scale_factor=0.5}", 1000.0, 550.0),
        (
            "{autovacuum_vacuum_threshold=7,autovacuum_vacuum_scale_factor=0,fillfactor=50}",
            1000.0,
            7.0,
        ),
        ("{autovacuum_vacuum_max_threshold=60}", 1000.0, 60.0),
        ("{autovacuum_vacuum_max_threshold=-1}", 1000.0, 250.0),
    ] {
        let found = threshold(options, rows);
        assert!(
            (found - expected).abs() < 1e-6,
            "{options} {rows}: {found}, not {expected}"
        );
    }
}

#[test]
fn bloat_is_estimated_and_measured_where_it_can_be() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client
        .batch_execute(
            "CREATE SCHEMA elsewhere; CREATE EXTENSION pgstattuple SCHEMA elsewhere; \
             ALTER TABLE redrive.jobs_delayed SET (autovacuum_enabled = off); \
             INSERT INTO redrive.jobs_delayed (run_at, queue, kind, payload) \
             SELECT now(), 'orders', 'order', '{\"number\": 1}' FROM generate_series(1, 20000) n; \
             ANALYZE redrive.jobs_delayed",
        )
        .unwrap();
    let bloat = |reading: &Reading, method: &str| -> f64 {
        let name = "redrive_table_bloat_bytes_estimate";
        number(&reading.families, name, &["jobs_delayed", method]).unwrap()
    };
    let heap = |reading: &Reading| -> f64 {
        number(
            &reading.families,
            "redrive_table_bytes",
            &["jobs_delayed", "heap"],
        )
        .unwrap()
    };
    // The server tells what a session did when that is over, or a second later.
    let mut in_range = |what: &str, range: std::ops::Range<f64>| {
        wait_until(what, SOON, || {
            client
                .batch_execute("ANALYZE redrive.jobs_delayed")
                .unwrap();
            let found = reading(&mut client);
            let shares =
                ["stats", "pgstattuple"].map(|method| bloat(&found, method) / heap(&found));
            shares.iter().all(|share| range.contains(share))
        });
    };
    in_range("a table without bloat to have little", 0.0..0.1);
    test.client()
        .batch_execute("DELETE FROM redrive.jobs_delayed WHERE id % 4 > 0")
        .unwrap();
    in_range("one that lost three quarters to show it", 0.6..0.9);
}

#[test]
fn slots_are_told_and_dated_by_the_reader() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let slot = format!("s_{}", &test.name()[test.name().len() - 12..]);
    client
        .execute(
            "SELECT pg_create_physical_replication_slot($1, true)",
            &[&slot],
        )
        .unwrap();
    let reading = reading(&mut client);
    client
        .execute("SELECT pg_drop_replication_slot($1)", &[&slot])
        .unwrap();
    reads(
        &reading,
        "redrive_pg_replication_slot_active",
        &[&slot],
        0.0,
    );
    let kept = "redrive_pg_replication_slot_retained_wal_bytes";
    assert!(number(&reading.families, kept, &[&slot]).is_some());
    let held = "redrive_pg_oldest_horizon_age_seconds";
    assert!(number(&reading.families, held, &["slot"]).is_some());
}

#[test]
fn the_server_is_told() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let (mut holder, mut waiter) = (test.client(), test.client());
    let mut held = holder.transaction().unwrap();
    held.batch_execute("LOCK TABLE redrive.retention IN ACCESS EXCLUSIVE MODE")
        .unwrap();
    let pid: i32 = waiter
        .query_one("SELECT pg_backend_pid()", &[])
        .unwrap()
        .get(0);
    let waiting = std::thread::spawn(move || waiter.batch_execute("TABLE redrive.retention"));
    wait_until("somebody to wait", SOON, || {
        let asked = "SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'";
        client.query_opt(asked, &[&pid]).unwrap().is_some()
    });
    let reading = read(&mut Reader::new("1"), &mut client);
    held.rollback().unwrap();
    waiting.join().unwrap().unwrap();
    reads(&reading, "redrive_pg_lock_waiters", &[], 1.0);
    reads(&reading, "redrive_pg_in_recovery", &[], 0.0);
    for (name, labels) in [
        ("redrive_pg_connections", &["active"][..]),
        ("redrive_pg_connections", &["idle in transaction"]),
        ("redrive_pg_connections_limit", &[]),
        ("redrive_pg_autovacuum_workers_limit", &[]),
        ("redrive_pg_frozen_xid_age", &[]),
        ("redrive_pg_start_timestamp_seconds", &[]),
        ("redrive_pg_stats_reset_timestamp_seconds", &[]),
    ] {
        let found = number(&reading.families, name, labels);
        assert!(
            found.is_some_and(|found| found > 0.0),
            "{name}{labels:?}: {found:?}"
        );
    }
}

#[test]
fn every_source_tells_what_the_catalogue_says_and_nothing_else() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client.batch_execute(LIVE).unwrap();
    client
        .batch_execute(
            "INSERT INTO redrive.dead_letters (queue, kind, reason, error_class, error_message, payload, enqueued_at) \
             VALUES ('orders', 'order', 'rejected', 'E', 'e', '{}', now())",
        )
        .unwrap();
    for source in Source::DATABASE
        .into_iter()
        .filter(|source| *source != Source::Totals)
    {
        let asked = format!(
            "SELECT metric, labels FROM redrive.metrics_{}()",
            source.as_str()
        );
        let rows = client.query(&asked, &[]).unwrap();
        for row in &rows {
            let (name, labels): (&str, Vec<String>) = (row.get(0), row.get(1));
            let metric = CATALOGUE.iter().find(|metric| metric.name == name);
            let metric = metric.unwrap_or_else(|| panic!("{name} is not in the catalogue"));
            assert_eq!(
                (metric.source, metric.labels.len()),
                (source, labels.len()),
                "{name}"
            );
            for (label, value) in metric.labels.iter().zip(&labels) {
                let is_known = label.values.is_empty() || label.values.contains(&&**value);
                assert!(is_known, "{name}: {} is not a {}", value, label.name);
            }
        }
    }
    // And whatever is in the catalogue is told, but for what this server does not have.
    let reading = read(&mut Reader::new("1"), &mut client);
    let told: Vec<&str> = reading
        .families
        .iter()
        .map(|family| family.metric.name)
        .collect();
    for metric in CATALOGUE {
        let is_of_slots = metric.labels.iter().any(|label| label.name == "slot");
        let is_of_classes = metric
            .labels
            .iter()
            .any(|label| label.name == "error_class");
        let is_of_kinds = metric
            .labels
            .iter()
            .any(|label| label.name == "kind" && label.values.is_empty());
        let is_told = told.contains(&metric.name);
        assert!(
            is_told || is_of_slots || is_of_classes || is_of_kinds,
            "{}",
            metric.name
        );
    }
}
