//! Tables and the server.

use redrive::metrics::Reader;
use redrive_tests::prelude::*;

use super::{about, reading};

/// Returns the sum of a statistic of all segments of the ring.
fn statistics(client: &mut Client, name: &str) -> i64 {
    let asked = format!(
        "SELECT sum(pg_stat_get_{name}(oid))::bigint FROM pg_class \
         WHERE relnamespace = 'redrive'::regnamespace AND relname ~ '^jobs_[0-9]+$'"
    );
    client.ask(&asked, &[])
}

#[test]
fn table_sizes_and_segment_rotations_are_published() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let before = reading(&mut client);
    says(&before, "ring_truncated_timestamp_seconds", 0.0);
    let began: f64 = client.ask("SELECT extract(epoch FROM clock_timestamp())::float8", &[]);
    queue.enqueue_many(&Order::up_to(500)).unwrap();
    says(&before, "ring_clean_segments", 8.0);
    for step in ["turned", "drained", "truncated"] {
        wait_until(step, SOON, || {
            let took: String = client.ask("SELECT redrive.turn_ring(8192, 0)", &[]);
            took == step
        });
        client.sql("DELETE FROM redrive.jobs");
    }
    queue.enqueue_many(&Order::up_to(500)).unwrap();
    // PostgreSQL 14 counts rows some time after the commit, and an idle session at its end.
    drop(queue);
    wait_until("the rows to be counted", SOON, || {
        statistics(&mut client, "tuples_inserted") == 1000
            && statistics(&mut client, "tuples_deleted") == 500
    });
    client.sql("VACUUM ANALYZE redrive.jobs");
    wait_until("the vacuum to be counted", SOON, || {
        statistics(&mut client, "vacuum_count") > 0 && statistics(&mut client, "live_tuples") == 500
    });
    let reading = reading(&mut client);
    for step in ["turned", "truncated"] {
        let at = format!("ring_{step}_timestamp_seconds");
        about(&reading, &at, began);
    }
    says(&reading, "ring_clean_segments", 7.0);
    // Eight segments, each with its own 10000.
    says(&reading, "table_autovacuum_threshold_rows{jobs}", 80_000.0);
    // The threshold is 1000 plus 0.02 of no rows.
    let of_letters = "table_autovacuum_threshold_rows{dead_letters}";
    says(&reading, of_letters, 1000.0);
    says(&reading, "table_live_rows_estimate{jobs}", 500.0);
    for name in [
        "table_bytes{jobs,heap}",
        "table_bytes{jobs,index}",
        "table_bytes{groups,toast}",
    ] {
        assert!(series(&reading, name).unwrap() > 0.0, "{name}");
    }
}

#[test]
fn the_autovacuum_threshold_prefers_the_setting_of_the_table() {
    let (_test, mut client) = TestDatabase::with_client();
    let mut threshold = |options: &str, rows: f64| -> f64 {
        let asked = "SELECT redrive.vacuum_threshold($1::text::text[], $2)";
        client.ask(asked, &[&options, &rows])
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
        let is_right = (found - expected).abs() < 1e-6;
        assert!(is_right, "{options} {rows}: {found}, not {expected}");
    }
}

#[test]
fn bloat_is_estimated() {
    let (test, mut client) = TestDatabase::with_client();
    let change = "ALTER TABLE redrive.jobs_delayed SET (autovacuum_enabled = off); \
                  INSERT INTO redrive.jobs_delayed (run_at, queue, kind, payload) \
                  SELECT now(), 'orders', 'order', '{\"number\": 1}' FROM generate_series(1, 20000) n; \
                  ANALYZE redrive.jobs_delayed";
    client.sql(change);
    // The server publishes the statistics of a session at its end, or a second later.
    let mut in_range = |what: &str, range: std::ops::Range<f64>| {
        wait_until(what, SOON, || {
            client.sql("ANALYZE redrive.jobs_delayed");
            let found = reading(&mut client);
            let bytes = |name: &str| series(&found, name).unwrap();
            let heap = bytes("table_bytes{jobs_delayed,heap}");
            let bloat = bytes("table_bloat_bytes_estimate{jobs_delayed}");
            range.contains(&(bloat / heap))
        });
    };
    in_range("a table without bloat to have little", 0.0..0.1);
    test.sql("DELETE FROM redrive.jobs_delayed WHERE id % 4 > 0");
    in_range("one that lost three quarters to show it", 0.6..0.9);
}

#[test]
fn replication_slots_are_published() {
    let (test, mut client) = TestDatabase::with_client();
    let slot = format!("s_{}", &test.name()[test.name().len() - 12..]);
    let create = "SELECT pg_create_physical_replication_slot($1, true)";
    client.change(create, &[&slot]);
    let reading = reading(&mut client);
    client.change("SELECT pg_drop_replication_slot($1)", &[&slot]);
    let active = format!("pg_replication_slot_active{{{slot}}}");
    says(&reading, &active, 0.0);
    let kept = format!("pg_replication_slot_retained_wal_bytes{{{slot}}}");
    assert!(series(&reading, &kept).is_some());
}

#[test]
fn server_settings_and_transactions_are_published() {
    let (test, mut client) = TestDatabase::with_client();
    let mut waiter = test.client();
    let mut holder = test.begins("LOCK TABLE redrive.retention IN ACCESS EXCLUSIVE MODE");
    let waiting = thread::spawn(move || waiter.batch_execute("TABLE redrive.retention"));
    blocked(&mut client, 1);
    let reading = read(&mut Reader::new("1"), &mut client);
    holder.sql("ROLLBACK");
    waiting.join().unwrap().unwrap();
    says(&reading, "pg_lock_waiters", 1.0);
    for name in [
        "pg_connections{active}",
        "pg_connections{idle in transaction}",
        "pg_connections_limit",
    ] {
        let found = series(&reading, name);
        assert!(found.is_some_and(|found| found > 0.0), "{name}: {found:?}");
    }
}

#[test]
fn a_running_vacuum_holds_back_nothing() {
    let (test, mut client) = TestDatabase::with_client();
    client.sql("CREATE TABLE public.big AS SELECT generate_series(1, 200000) AS n");
    let mut vacuum = test.client();
    let pid: i32 = vacuum.ask("SELECT pg_backend_pid()", &[]);
    let vacuuming = thread::spawn(move || {
        // It takes minutes, so it runs until the test ends it.
        vacuum.sql("SET vacuum_cost_delay = 100; SET vacuum_cost_limit = 1");
        vacuum.batch_execute("VACUUM public.big")
    });
    wait_until("the vacuum to run", SOON, || {
        let asked = "SELECT FROM pg_stat_progress_vacuum v JOIN pg_stat_activity a USING (pid) \
                     WHERE v.pid = $1 AND a.backend_xmin IS NOT NULL";
        client.query_opt(asked, &[&pid]).unwrap().is_some()
    });
    client.sql("SELECT pg_current_xact_id()");
    // The server may analyze a table meanwhile, which holds the horizon.
    wait_until("no holder to be found", SOON, || {
        let reading = reading(&mut client);
        let holders = "SELECT count(*) FROM redrive.horizon_holders()";
        scalar(&mut client, holders) == 0
            && [
                "pg_oldest_horizon_age_transactions{backend}",
                "pg_oldest_horizon_age_seconds{backend}",
                "pg_oldest_transaction_age_seconds",
            ]
            .iter()
            .all(|name| series(&reading, name) == Some(0.0))
    });
    client.change("SELECT pg_terminate_backend($1, 20000)", &[&pid]);
    vacuuming.join().unwrap().unwrap_err();
}

#[test]
fn ids_are_as_old_as_in_the_database_with_the_oldest() {
    let (_test, mut client) = TestDatabase::with_client();
    // Other databases of the server, such as its templates, are older.
    client.sql("VACUUM (FREEZE)");
    let age = |client: &mut Client, asked: &str| -> f64 {
        client.ask(&format!("SELECT ({asked})::float8 FROM pg_database"), &[])
    };
    let own = "max(age(datfrozenxid)) FILTER (WHERE datname = current_database())";
    let oldest = ["max(age(datfrozenxid))", "max(mxid_age(datminmxid))"];
    let before = oldest.map(|asked| age(&mut client, asked));
    let reading = reading(&mut client);
    let after = oldest.map(|asked| age(&mut client, asked));
    let found = ["transaction", "multixact"]
        .map(|kind| series(&reading, &format!("pg_frozen_id_age{{{kind}}}")).unwrap());
    for ((found, before), after) in found.into_iter().zip(before).zip(after) {
        let is_right = (before..=after).contains(&found);
        assert!(is_right, "{before} {found} {after}");
    }
    assert!(found[0] > age(&mut client, own), "its own are younger");
}
